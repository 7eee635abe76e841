// Runs a plan: one worker thread for each device or host resource, driven by Progress. Threads are
// pinned only where ExecutorOptions::cores names their resource. Layer: flow.
//
// Contract
//   - N batches in, exactly N served: a source returns false for the batch after its last; the
//     last step may hold fewer firings than per_step and still completes.
//   - The first error wins and keeps stage, replica, step and, where items carry positions, the
//     batch: "stage drafter, replica 1, step 7, batch 17 of epoch 0 (shard 2, row 5 of manifest
//     1f2e3d4c): ...", with batches counted from 1; a stage without inputs says after which batch.
//     An error of a source arrives at its exact position: its stream ends there, and the batches
//     before it are processed. Any other error stops all devices once the firings that are running
//     have ended, also where memory or threads run out. run() throws it after all workers have
//     joined. Nothing is swallowed; a new Executor starts clean.
//   - Every wait can be stopped: request_stop() (any thread, not from a signal handler) makes
//     run() return with Outcome::stopped once the firings that are running have ended. Stages
//     that run long poll Context::stopping(), or give Context::stop to what they wait in; one
//     that gives up because of it throws Error(cancelled), and its firing is not counted.
//   - Watchdog: without progress for `watchdog_seconds` the wait-for graph goes to `on_hang`;
//     with `stop_on_hang` the run ends with Error(hang) that carries it. A long stage is not a
//     hang: only a state where every unfinished device waits is. A stage that waits in a
//     BoundedChannel waits.
//   - Re-planning (replan.h): after `replan.after_steps` steps, at a step's end, channels may become
//     deeper and host stages get more workers. Those are in no trace: its header lists the devices
//     of the plan as given.
//   - Trace: every moment of every device and host thread that the recorder lists lies in one
//     span. `startup`: the run's start to its first work. `tail`: its last work to the run's end.
//     A firing on several devices is a span of each, of kind sync; so is a stage named "sync".
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "headrace/plan.h"
#include "headrace/position.h"
#include "headrace/progress.h"
#include "headrace/record.h"
#include "headrace/replan.h"

namespace headrace {

// What travels through a plan's channels.
struct Item {
  std::any payload;
  std::uint64_t bytes = 0;  // counted against the channel's byte bound
  Position position;        // where the batch came from; travels with it
};

// One firing, as its stage function sees it; the function keeps no reference to it.
class Context {
 public:
  Firing firing;
  std::vector<Item> inputs;        // one for each input channel, in the stage's order
  std::vector<Item> outputs;       // to be filled: one for each output channel
  std::stop_token stop;            // for waits inside the stage
  std::function<bool()> stopping;  // whether the run is being stopped; cheap

  template <typename T>
  const T& input(std::size_t index = 0) const {
    return std::any_cast<const T&>(inputs.at(index).payload);
  }
};

// A stage's work. A source returns false where there is no further batch; others return true.
// Sources are the stages without inputs, but for those that come after others in their step or have
// no outputs either and come after earlier steps of others.
using StageFunction = std::function<bool(Context&)>;

struct ExecutorOptions {
  std::uint64_t steps = 0;  // 0: until the source ends
  std::map<std::string, std::vector<int>>
      cores;  // resource -> cores its thread is pinned to; absent: not pinned
  double watchdog_seconds = 30;
  bool stop_on_hang = true;
  // In the watchdog's thread. Default: stderr, where the run goes on (without stop_on_hang).
  std::function<void(const std::string&)> on_hang;
  // After each completed step, in order, one call at a time, under no lock: in the worker thread
  // whose firing completed it, while other workers may already run stages of later steps.
  std::function<void(std::uint64_t step)> on_step;
  std::function<void(const std::string& resource)>
      on_worker_start;  // in the worker's thread, e.g. to set thread counts
  ReplanOptions replan;
};

enum class Outcome { finished, stopped };

// The header of a recorder for runs of this plan: its devices, then its host threads.
TraceHeader trace_header(const Plan& plan, const ScheduleText& schedule);

class Executor {
 public:
  // Error(bad_input) where a stage has no function, a function or cores have no stage or resource,
  // the schedule is invalid or the plan cannot run. The recorder outlives the executor.
  Executor(Plan plan, ScheduleText schedule, std::map<std::string, StageFunction> functions,
           ExecutorOptions options, Recorder* recorder = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  Outcome run();  // once
  void request_stop();
  std::uint64_t steps_completed() const;
  std::string wait_for_graph() const;  // one line a device, by name
  // What re-planning changed and gained, final once run() has returned or thrown; nothing where it
  // was not asked for.
  std::optional<ReplanOutcome> replanned() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headrace
