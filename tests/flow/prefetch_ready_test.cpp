// Order::ready: batches as they become ready, and what may be committed then.
#include <gtest/gtest.h>

#include <algorithm>
#include <semaphore>
#include <set>
#include <tuple>

#include "flow/prefetch_harness.h"
#include "headrace/prefetch.h"

namespace headrace {
namespace {

using testing::Number;
using testing::numbers;
using testing::position_after;

class ReadyOrder : public ::testing::TestWithParam<std::tuple<std::uint64_t, std::uint64_t>> {
 protected:
  const std::uint64_t depth = std::get<0>(GetParam()), workers = std::get<1>(GetParam());
  const PrefetchOptions options{
      .depth = depth, .workers = workers, .order = Order::ready, .nice = 0};
};
INSTANTIATE_TEST_SUITE_P(DepthsAndWorkers, ReadyOrder,
                         ::testing::Combine(::testing::Values(1, 2, 3, 8),
                                            ::testing::Values(0, 1, 2, 4)),
                         [](const auto& param) {
                           return fmt::format("Depth{}Workers{}", std::get<0>(param.param),
                                              std::get<1>(param.param));
                         });

// Used in part and resumed, twice: nothing is lost, less than `depth` batches come again, and what
// is committed has been used up to the last.
TEST_P(ReadyOrder, AResumeLosesNothingAndRepeatsLessThanDepth) {
  constexpr std::uint64_t kCount = 30;
  std::multiset<std::uint64_t> used;
  PrefetchOptions at = options;
  for (const std::uint64_t steps : {std::uint64_t{7}, std::uint64_t{4}, kCount}) {
    Prefetch<Number> batches(numbers(at.start.batch, kCount), at);
    bool more = batches.prime();
    for (std::uint64_t i = 0; more && i < steps; ++i, more = batches.next())
      used.insert(batches.current().value);
    at.start = batches.offsets_to_commit();
    const std::uint64_t committed = at.start.batch;
    for (std::uint64_t i = 0; i < committed; ++i) EXPECT_TRUE(used.contains(i)) << i;
    EXPECT_LT(std::distance(used.lower_bound(committed), used.end()),
              static_cast<std::ptrdiff_t>(depth));
    EXPECT_EQ(at.start, committed == 0 ? Position{} : position_after(committed));
  }
  EXPECT_EQ(at.start, position_after(kCount));
  for (std::uint64_t i = 0; i < kCount; ++i) EXPECT_GE(used.count(i), 1u) << i;
  EXPECT_LT(used.size(), kCount + 2 * depth);
}

TEST_P(ReadyOrder, AnErrorComesAfterWhatWasClaimedBeforeIt) {
  for (const std::uint64_t broken : {0, 1, 2, 7}) {
    Prefetch<Number> batches(numbers(0, UINT64_MAX, broken), options);
    std::set<std::uint64_t> used;
    try {
      for (bool more = batches.prime(); more; more = batches.next())
        EXPECT_TRUE(used.insert(batches.current().value).second);
      FAIL() << "the error was swallowed";
    } catch (const Error&) {
    }
    for (std::uint64_t i = 0; i < broken; ++i) EXPECT_TRUE(used.contains(i)) << i;
    EXPECT_FALSE(used.contains(broken));
    EXPECT_EQ(batches.offsets_to_commit().batch, broken);
    EXPECT_THROW(batches.next(), Error);
  }
}

// A batch that takes long holds nobody up until depth - 1 others are served, and nothing behind it
// is committed before it is.
TEST(ReadyOrder, ASlowBatchHoldsNobodyUp) {
  std::binary_semaphore others_were_served(0);
  Prefetch<Number> batches({[made = std::uint64_t{0}](Number& number) mutable {
                              number.value = made++;
                              number.position = position_after(made);
                              return made <= 10;
                            },
                            [&](Number& number) {
                              if (number.value == 0) others_were_served.acquire();
                            }},
                           {.depth = 4, .workers = 2, .order = Order::ready});
  ASSERT_TRUE(batches.prime());
  for (std::uint64_t expected = 1; expected <= 3; ++expected) {
    EXPECT_EQ(batches.current().value, expected);
    EXPECT_EQ(batches.offsets_to_commit(), Position{});
    if (expected == 3) others_were_served.release();
    ASSERT_TRUE(batches.next());
  }
  EXPECT_EQ(batches.current().value, 0u);
  EXPECT_EQ(batches.offsets_to_commit(), Position{});
  ASSERT_TRUE(batches.next());
  EXPECT_EQ(batches.offsets_to_commit(), position_after(4));
}

}  // namespace
}  // namespace headrace
