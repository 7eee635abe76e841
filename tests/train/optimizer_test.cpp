#include "train/optimizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "headrace/error.h"

namespace headrace {
namespace {

FlatLayout layout_of(const std::vector<std::vector<std::int64_t>>& shapes) {
  FlatLayout layout;
  for (const auto& shape : shapes) {
    const auto elements = static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
    layout.entries.push_back(
        {fmt::format("t{}", layout.entries.size()), shape, layout.elements, elements});
    layout.elements += elements;
  }
  return layout;
}

// As in the paper, in double, one element at a time.
struct PlainAdamW {
  std::vector<double> w, m, v;
  int t = 0;
  void step(const FlatLayout& layout, const std::vector<float>& gradient, double rate,
            const OptimizerOptions& o) {
    double norm = 0;
    for (const float g : gradient) norm += static_cast<double>(g) * g;
    norm = std::sqrt(norm);
    const double scale = o.clip > 0 && norm > o.clip ? o.clip / norm : 1;
    ++t;
    for (const auto& entry : layout.entries)
      for (std::size_t i = entry.offset; i < entry.offset + entry.elements; ++i) {
        const double g = gradient[i] * scale;
        m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
        v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
        const double decay = entry.shape.size() > 1 ? o.weight_decay : 0;
        w[i] -= rate * (m[i] / (1 - std::pow(o.beta1, t)) /
                            (std::sqrt(v[i] / (1 - std::pow(o.beta2, t))) + o.eps) +
                        decay * w[i]);
      }
  }
};

TEST(Optimizer, EqualsPlainAdamW) {
  ASSERT_TRUE(rc::check("AdamW with clipping and decay", [] {
    const FlatLayout layout = layout_of({{3, *rc::gen::inRange<std::int64_t>(1, 30)}, {7}, {2, 2}});
    OptimizerOptions options;
    options.weight_decay = 0.1;
    options.clip = *rc::gen::element(0.0, 1.0, 100.0);
    const auto value = rc::gen::map(rc::gen::inRange(-1000, 1001),
                                    [](int x) { return static_cast<float>(x) / 300; });
    const auto vector = rc::gen::container<std::vector<float>>(layout.elements, value);
    const std::vector<float> start = *vector;
    Optimizer optimizer(layout, start, options);
    PlainAdamW plain{{start.begin(), start.end()},
                     std::vector<double>(start.size()),
                     std::vector<double>(start.size())};
    for (int step = 0; step < 4; ++step) {
      const std::vector<float> gradient = *vector;
      optimizer.step(gradient, 1e-2);
      plain.step(layout, gradient, 1e-2, options);
    }
    for (std::size_t i = 0; i < start.size(); ++i)
      RC_ASSERT(std::abs(optimizer.weights()[i] - plain.w[i]) < 1e-5);
  }));
}

TEST(Optimizer, ReturnsTheNormBeforeClipping) {
  Optimizer optimizer(layout_of({{1, 2}}), {0, 0}, {});
  EXPECT_DOUBLE_EQ(optimizer.step(std::vector<float>{3, 4}, 1e-3), 5);
}

TEST(Optimizer, RefusesAGradientThatIsNotFiniteAndStaysAsItWas) {
  Optimizer optimizer(layout_of({{1, 2}}), {1, 2}, {});
  EXPECT_THROW(optimizer.step(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()}, 1e-3),
               Error);
  EXPECT_EQ(optimizer.steps(), 0u);
  EXPECT_EQ(optimizer.weights()[0], 1);
  EXPECT_EQ(optimizer.first_moment()[0], 0);
}

TEST(Optimizer, ResumedFromItsStateGivesTheSameBits) {
  const FlatLayout layout = layout_of({{5, 9}, {3}});
  const auto gradient = [&](int step) {
    std::vector<float> g(layout.elements);
    for (std::size_t i = 0; i < g.size(); ++i)
      g[i] = std::sin(static_cast<float>(step * 31 + static_cast<int>(i)));
    return g;
  };
  Optimizer whole(layout, gradient(100), {});
  for (int step = 0; step < 3; ++step) whole.step(gradient(step), 1e-3);
  Optimizer resumed(layout, gradient(7), {});
  resumed.restore(whole.weights(), whole.first_moment(), whole.second_moment(), whole.steps());
  for (int step = 3; step < 6; ++step) {
    whole.step(gradient(step), 1e-3);
    resumed.step(gradient(step), 1e-3);
  }
  EXPECT_TRUE(
      std::equal(whole.weights().begin(), whole.weights().end(), resumed.weights().begin()));
  EXPECT_THROW(
      resumed.restore(std::vector<float>(2), whole.first_moment(), whole.second_moment(), 1),
      Error);
}

TEST(LearningRate, CosineWarmsUpAndEndsAtItsLastShare) {
  const LearningRate rate{
      .peak = 2, .decay = LearningRate::Decay::cosine, .warmup = 10, .steps = 110, .last = 0.1};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(9), 2);
  EXPECT_DOUBLE_EQ(rate.at(10), 2);
  EXPECT_DOUBLE_EQ(rate.at(60), 2 * (0.1 + 0.9 * 0.5));
  EXPECT_NEAR(rate.at(110), 0.2, 1e-12);
}

TEST(LearningRate, LinearFallsInAStraightLine) {
  const LearningRate rate{
      .peak = 2, .decay = LearningRate::Decay::linear, .warmup = 4, .steps = 14};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(4), 2);
  for (std::uint64_t step = 5; step < 14; ++step)
    EXPECT_NEAR(rate.at(step - 1) - rate.at(step), 0.2, 1e-12);
}

TEST(Optimizer, ATensorsRateCanBeScaled) {
  const FlatLayout layout{{{"a", {2, 2}, 0, 4}, {"b", {2, 2}, 4, 4}}, 8};
  const std::vector<float> start(8, 1.0f), gradient(8, 0.5f);
  Optimizer optimizer(layout, start, {.weight_decay = 0, .clip = 0, .rate_scale = {{"b", 0.25}}});
  optimizer.step(gradient, 0.1);
  EXPECT_NEAR(1 - optimizer.weights()[4], 0.25 * (1 - optimizer.weights()[0]), 1e-6);
  EXPECT_LT(optimizer.weights()[0], 1);
}

TEST(LearningRate, WsdIsStableThenLinear) {
  const LearningRate rate{
      .peak = 1, .decay = LearningRate::Decay::wsd, .warmup = 4, .steps = 100, .decay_share = 0.2};
  EXPECT_DOUBLE_EQ(rate.at(4), 1);
  EXPECT_DOUBLE_EQ(rate.at(80), 1);
  EXPECT_DOUBLE_EQ(rate.at(90), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(100), 0);
}

TEST(LearningRate, StaysWithinItsBoundsAndDoesNotRiseAfterTheWarmUp) {
  ASSERT_TRUE(rc::check("bounds", [] {
    LearningRate rate;
    rate.decay = *rc::gen::element(LearningRate::Decay::cosine, LearningRate::Decay::wsd);
    rate.warmup = *rc::gen::inRange<std::uint64_t>(0, 50);
    rate.steps = *rc::gen::inRange<std::uint64_t>(0, 100);
    rate.last = *rc::gen::element(0.0, 0.1, 1.0);
    for (std::uint64_t step = 0; step < 120; ++step) {
      RC_ASSERT(rate.at(step) >= 0 && rate.at(step) <= rate.peak * (1 + 1e-12));
      if (step > rate.warmup) RC_ASSERT(rate.at(step) <= rate.at(step - 1) * (1 + 1e-12));
    }
  }));
}

}  // namespace
}  // namespace headrace
