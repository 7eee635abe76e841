// AdamW on flat fp32 master weights, and learning-rate schedules as pure functions of the step. No
// libtorch here.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "train/flat_layout.h"

namespace headrace {

struct LearningRate {
  enum class Decay {
    cosine,  // from the peak to `last` of it over the steps after the warm-up
    linear,  // the same, in a straight line
    wsd,  // warm-up, stable at the peak, then linear to `last` over the final `decay_share` of the
          // steps
  };
  double peak = 1e-3;
  Decay decay = Decay::cosine;
  std::uint64_t warmup = 0;  // steps of linear warm-up: step 0 has peak / warmup
  std::uint64_t steps = 0;   // of the whole run; 0: unknown, no decay
  double decay_share = 0.2;
  double last = 0;  // share of the peak after the last step

  // Of the update that makes step n + 1 out of step n. Depends on nothing but its argument: a
  // resumed run asks for the same step and gets the same rate.
  double at(std::uint64_t step) const;
};

struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.01;                // decoupled; not on tensors of one dimension (norms)
  double clip = 1;                           // largest global norm of the gradient; 0: none
  std::map<std::string, double> rate_scale;  // of the learning rate, for the tensors named
};

class Optimizer {
 public:
  // Starts from these weights, flat in the order of `layout`.
  Optimizer(FlatLayout layout, std::vector<float> weights, const OptimizerOptions& options);

  // One update; returns the norm of the gradient before clipping. Error(bad_input) for a gradient
  // that is not finite: weights and moments then stay as they were.
  double step(std::span<const float> gradient, double learning_rate);

  const FlatLayout& layout() const { return layout_; }
  std::span<const float> weights() const { return weights_; }
  std::uint64_t steps() const { return steps_; }

  // The state beside the weights, for checkpoints. restore: Error(bad_input) where sizes differ.
  std::span<const float> first_moment() const { return first_; }
  std::span<const float> second_moment() const { return second_; }
  void restore(std::span<const float> weights, std::span<const float> first,
               std::span<const float> second, std::uint64_t steps);

 private:
  FlatLayout layout_;
  std::vector<float> weights_, first_, second_;
  OptimizerOptions options_;
  std::uint64_t steps_ = 0;
};

}  // namespace headrace
