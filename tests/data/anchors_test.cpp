#include "data/anchors.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <vector>

namespace headrace {
namespace {

TEST(Anchors, AreAscendingDistinctValidAndAsManyAsFit) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    const auto length = *rc::gen::inRange<std::uint64_t>(0, 300);
    const auto wanted = *rc::gen::inRange<std::size_t>(1, 80);
    std::vector<std::int32_t> anchors(wanted, -7);
    sample_anchors(CounterRng(seed, Draw::anchors, {1}), length, anchors);
    const std::size_t valid = length < kShortestRow ? 0 : length - 2;
    const std::size_t taken = std::min(valid, wanted);
    for (std::size_t i = 0; i < wanted; ++i) {
      if (i >= taken)
        RC_ASSERT(anchors[i] == -1);
      else
        RC_ASSERT(anchors[i] >= 1 && anchors[i] + 1 < static_cast<std::int32_t>(length));
      if (i > 0 && i < taken) RC_ASSERT(anchors[i - 1] < anchors[i]);
    }
  }));
}

// 40,000 samples of 5 from 20 positions: each position is expected 10,000 times.
TEST(Anchors, AreUniform) {
  std::array<int, 22> times{};
  for (std::uint64_t row = 0; row < 40'000; ++row) {
    std::array<std::int32_t, 5> anchors;
    sample_anchors(CounterRng(1, Draw::anchors, {row}), 22, anchors);
    for (std::int32_t anchor : anchors) ++times[static_cast<std::size_t>(anchor)];
  }
  for (std::size_t position = 1; position <= 20; ++position)
    EXPECT_NEAR(times[position], 10'000, 5 * 87) << position;  // five standard deviations
}

// A run resumed on another machine must draw the same numbers.
TEST(CounterRng, IsPinned) {
  CounterRng rng(1, Draw::anchors, {2, 3});
  const std::array<std::uint64_t, 3> drawn = {rng.next(), rng.next(), rng.below(1000)};
  EXPECT_EQ(drawn,
            (std::array<std::uint64_t, 3>{16352517166221749583u, 16019941656544262177u, 35u}));
}

TEST(CounterRng, EveryWordOfTheKeyMatters) {
  std::vector<std::uint64_t> first;
  for (std::uint64_t seed : {0, 1})
    for (Draw purpose : {Draw::piece_order, Draw::anchors})
      for (std::uint64_t a : {0, 1})
        for (std::uint64_t b : {0, 1}) first.push_back(CounterRng(seed, purpose, {a, b}).next());
  std::ranges::sort(first);
  EXPECT_EQ(std::ranges::adjacent_find(first), first.end());
}

}  // namespace
}  // namespace headrace
