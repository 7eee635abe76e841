// The work of drafter training: what the stages load, target, drafter and sync do, and the state
// they share. The runtime decides when each runs; nothing here knows a schedule. The implementation
// is libtorch's, the header is not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "headrace/executor.h"
#include "train/dflash_session.h"

namespace headrace {

class Target;
class Drafter;

// The frozen target in the precision that training uses: bf16 where this CPU multiplies it
// natively, else fp32.
std::shared_ptr<const Target> load_training_target(const DflashSession& session);

// A batch with the target's features: what travels from target to drafter.
struct FeatureBatch;

struct StepLog {
  std::uint64_t step = 0;
  double loss = 0, learning_rate = 0, gradient_norm = 0;
  std::uint64_t tokens = 0;  // trained on so far
  std::vector<double> accepted,
      counted;              // a slot, of this step: teacher-forced on the data's tokens
  Position position;        // after it
  std::string rows_sha256;  // of what it was trained on (add_rows), in the replicas' order
};

class DflashTrainer {
 public:
  // `replicas` drafters, all from the session's checkpoint or, without one, from start weights by
  // options.start.
  DflashTrainer(const DflashSession& session, std::shared_ptr<const Target> target,
                std::uint64_t replicas);
  ~DflashTrainer();

  // The functions of the stages load, target, drafter and sync.
  std::map<std::string, StageFunction> functions();

  // The same work one piece at a time.
  // Null at the end of the data. Error(cancelled) where it would have to wait and is stopped.
  std::shared_ptr<const TokenBatch> load(const std::stop_token& stop = {});
  std::shared_ptr<const FeatureBatch> features(std::shared_ptr<const TokenBatch> batch,
                                               const std::function<bool()>& stopping) const;
  void backward(std::uint64_t replica, const FeatureBatch& batch);
  // Reduces the replicas' gradients in order, steps the optimizer, refreshes the replicas. Where it
  // throws, the step has not happened.
  void update();

  // Drops the target, which only features() needs: memory for what comes after training.
  void release_target();

  // Learning rates are those of a run of so many steps. 0: not known yet, so no decay.
  void set_total_steps(std::uint64_t steps);
  std::uint64_t total_steps() const;

  // State after the last completed update().
  std::uint64_t steps() const;
  std::uint64_t tokens() const;
  const Position& position() const;
  const std::vector<StepLog>& log() const;
  const Drafter& drafter() const;
  TextCounts data_counts() const;
  std::string weights_sha256() const;
  std::span<const float> weights() const;  // fp32 master weights, flat, in the order of names
  CheckpointContent checkpoint() const;    // borrows the weights

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headrace
