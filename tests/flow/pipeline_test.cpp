#include "headrace/pipeline.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "headrace/thread.h"
#include "threads.h"

namespace headrace {
namespace {

// Counts 0, 1, ... items - 1.
auto count_to(int items) {
  return [items, next = 0]() mutable -> std::optional<int> {
    return next < items ? std::optional(next++) : std::nullopt;
  };
}

TEST(Pipeline, ServesEveryItemOnceInOrderThroughChangingTypes) {
  for (const int items : {0, 1, 3, 1000}) {
    std::vector<std::string> got;
    const Status status = run_pipeline(
        {.capacity = 4}, count_to(items), [](int i) { return std::make_unique<int>(i * i); },
        [](std::unique_ptr<int> i) { return std::to_string(*i); },
        [&](std::string text) { got.push_back(std::move(text)); });
    EXPECT_EQ(status, Status::ok);
    ASSERT_EQ(got.size(), static_cast<std::size_t>(items));
    for (int i = 0; i < items; ++i)
      EXPECT_EQ(got[static_cast<std::size_t>(i)], std::to_string(i * i));
  }
}

// Wherever a stage fails: the error names it, good items before it are served, all threads end, and
// the next run is clean.
TEST(Pipeline, FirstErrorWinsAndGoodItemsBeforeItAreServed) {
  const std::size_t threads_before = testing::threads_at_rest();
  const bool holds = rc::check("an error at any stage and item", [&] {
    const int stage = *rc::gen::inRange(0, 4), item = *rc::gen::inRange(0, 50);
    const std::uint64_t capacity = *rc::gen::inRange<std::uint64_t>(1, 9);
    const auto fail_at = [&](int here, int i) {
      if (here == stage && i == item) throw std::runtime_error("planted");
    };
    std::vector<int> got;
    try {
      run_pipeline(
          {.capacity = capacity},
          [&, source = count_to(100), made = 0]() mutable {
            fail_at(0, made++);
            return source();
          },
          [&](int i) { return fail_at(1, i), i; }, [&](int i) { return fail_at(2, i), i; },
          [&](int i) { fail_at(3, i), got.push_back(i); });
      RC_FAIL("the error was swallowed");
    } catch (const Error& error) {
      RC_ASSERT(error.what() == fmt::format("stage {}, item {}: planted", stage, item));
    }
    RC_ASSERT(got.size() == static_cast<std::size_t>(item));
    for (int i = 0; i < item; ++i) RC_ASSERT(got[static_cast<std::size_t>(i)] == i);
  });
  EXPECT_TRUE(holds);
  EXPECT_TRUE(testing::threads_fall_to(threads_before));
}

TEST(Pipeline, StopEndsAnEndlessSource) {
  std::stop_source stop;
  std::atomic<int> got = 0;
  const Status status = run_pipeline(
      {.capacity = 2, .stop = stop.get_token()}, []() -> std::optional<int> { return 1; },
      [](int i) { return i; },
      [&](int) {
        if (++got == 100) stop.request_stop();
      });
  EXPECT_EQ(status, Status::stopped);
  EXPECT_GE(got, 100);
}

TEST(Pipeline, PinsItsStagesAndGivesTheCallerItsCoresBack) {
  const std::vector<int> before = allowed_cores();
  std::vector<int> seen(3, -1);
  const auto here = [&](std::size_t stage) { seen[stage] = allowed_cores().at(0); };
  run_pipeline(
      {.cores = {before.front(), before.back()}},
      [&, source = count_to(5)]() mutable { return here(0), source(); },
      [&](int i) { return here(1), i; }, [&](int) { here(2); });
  EXPECT_EQ(seen, (std::vector{before.front(), before.front(), before.back()}));
  EXPECT_EQ(allowed_cores(), before);
  EXPECT_THROW(run_pipeline({.cores = {4095}}, count_to(5), [](int) {}), Error);
  EXPECT_EQ(allowed_cores(), before);
}

TEST(Pipeline, NeverHoldsMoreThanItsCapacities) {
  std::atomic<int> inside = 0, most = 0;
  run_pipeline(
      {.capacity = 3},
      [&, source = count_to(2000)]() mutable {
        const std::optional<int> item = source();
        if (item) most = std::max(most.load(), ++inside);
        return item;
      },
      [](int i) { return i; }, [&](int) { --inside; });
  EXPECT_LE(most, 3 + 3 + 3) << "two links of three, and an item in each stage's hands";
}

}  // namespace
}  // namespace headrace
