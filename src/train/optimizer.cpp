#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "headrace/error.h"
#include "nn/files/adamw.h"

namespace headrace {

double LearningRate::at(std::uint64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (steps <= warmup) return peak;
  const auto total = static_cast<double>(steps);
  const double after_warmup = total - static_cast<double>(warmup);
  const double tail =
      decay == Decay::wsd ? std::min(decay_share * total, after_warmup) : after_warmup;
  const double begin = total - tail;
  const double done =
      tail > 0 ? std::clamp((static_cast<double>(step) - begin) / tail, 0.0, 1.0) : 0.0;
  const double left =
      decay == Decay::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1 - done;
  return peak * (last + (1 - last) * left);
}

Optimizer::Optimizer(FlatLayout layout, std::vector<float> weights, const OptimizerOptions& options)
    : layout_(std::move(layout)),
      weights_(std::move(weights)),
      first_(weights_.size()),
      second_(weights_.size()),
      options_(options) {
  if (weights_.size() != layout_.elements)
    fail(ErrorCode::internal, "{} weights for {} parameters", weights_.size(), layout_.elements);
}

double Optimizer::step(std::span<const float> gradient, double learning_rate) {
  if (gradient.size() != layout_.elements)
    fail(ErrorCode::internal, "a gradient of {} elements for {} parameters", gradient.size(),
         layout_.elements);
  const double norm =
      std::sqrt(sum_of_squares(gradient.data(), static_cast<std::int64_t>(gradient.size())));
  if (!std::isfinite(norm))
    fail(ErrorCode::internal,
         "the gradient of step {} is not finite: lower the learning rate, or look at the batch's "
         "data",
         steps_ + 1);
  ++steps_;
  AdamWStep step;
  step.beta1 = static_cast<float>(options_.beta1);
  step.beta2 = static_cast<float>(options_.beta2);
  step.eps = static_cast<float>(options_.eps);
  step.gradient_scale =
      options_.clip > 0 && norm > options_.clip ? static_cast<float>(options_.clip / norm) : 1.0f;
  step.correction1 = static_cast<float>(1 - std::pow(options_.beta1, static_cast<double>(steps_)));
  step.correction2 = static_cast<float>(1 - std::pow(options_.beta2, static_cast<double>(steps_)));
  for (const auto& entry : layout_.entries) {
    const auto scale = options_.rate_scale.find(entry.name);
    step.learning_rate = static_cast<float>(
        learning_rate * (scale == options_.rate_scale.end() ? 1 : scale->second));
    step.weight_decay = entry.shape.size() > 1 ? static_cast<float>(options_.weight_decay) : 0.0f;
    adamw(step, gradient.data() + entry.offset, static_cast<std::int64_t>(entry.elements),
          weights_.data() + entry.offset, first_.data() + entry.offset,
          second_.data() + entry.offset);
  }
  return norm;
}

void Optimizer::restore(std::span<const float> weights, std::span<const float> first,
                        std::span<const float> second, std::uint64_t steps) {
  for (const auto part : {weights, first, second})
    if (part.size() != layout_.elements)
      fail(ErrorCode::bad_input,
           "the optimizer's state has {} elements, but the parameters have {}", part.size(),
           layout_.elements);
  weights_.assign(weights.begin(), weights.end());
  first_.assign(first.begin(), first.end());
  second_.assign(second.begin(), second.end());
  steps_ = steps;
}

}  // namespace headrace
