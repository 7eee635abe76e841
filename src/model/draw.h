// Costs of a stage's firings. A distribution is drawn by (seed, stage, firing) and by nothing else,
// so that schedules are compared over the same costs. Layer: model.
#pragma once

#include <cstdint>

#include "headrace/plan.h"

namespace headrace {

class CostDraw {
 public:
  CostDraw(const Stage& stage, std::uint64_t seed, std::uint64_t stage_index)
      : cost_(stage.cost), key_(mix(seed) ^ mix(stage_index + 1)) {}

  double draw(std::uint64_t sequence) const {
    if (cost_.quantiles.empty() && cost_.samples.size() == 1) return cost_.samples.front();
    const std::uint64_t random = mix(key_ + sequence);
    if (cost_.quantiles.empty()) return cost_.samples[random % cost_.samples.size()];
    return cost_.at(static_cast<double>(random >> 11) * 0x1p-53);
  }

 private:
  // SplitMix64 (Steele, Lea, Flood 2014).
  static std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  Cost cost_;
  std::uint64_t key_;
};

}  // namespace headrace
