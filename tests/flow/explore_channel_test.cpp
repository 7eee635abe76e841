// The channels of headrace/channel.h in more interleavings than any stress test reaches, with the
// store buffers of x86; and that the same exploration finds bugs planted into what they stand on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "flow/explore/channel_programs.h"

namespace headrace::explore {
namespace {

struct Case {
  const char* name;
  Program program;
  unsigned budget = 2;  // of the depth-first search
};

std::vector<Case> cases() {
  return {
      {"spsc, capacity 1", transfer<SpscRing>(1, 3, {3}, {1, 0}), 3},
      {"spsc, capacity 2", transfer<SpscRing>(1, 3, {3}, {2, 0}), 3},
      {"mpmc 1x1, capacity 1", transfer<MpmcRing>(1, 3, {3}, {1, 0}), 3},
      {"mpmc 2x1, capacity 1", transfer<MpmcRing>(2, 1, {2}, {1, 0})},
      {"mpmc 1x2, capacity 1", transfer<MpmcRing>(1, 2, {1, 1}, {1, 0})},
      {"mpmc 2x2, capacity 1", transfer<MpmcRing>(2, 1, {1, 1}, {1, 0})},
      {"mpmc 2x2, capacity 2", transfer<MpmcRing>(2, 2, {2, 2}, {2, 0}), 1},
      {"spsc, room for one", room_for_one<SpscRing>({2, 0}), 3},
      {"mpmc, room for one", room_for_one<MpmcRing>({2, 0}), 3},
      {"spsc, close", close_while_busy<SpscRing>(2, false, {1, 0})},
      {"spsc, close at one item", close_while_busy<SpscRing>(1, false, {1, 0}), 3},
      {"mpmc, close", close_while_busy<MpmcRing>(2, false, {1, 0})},
      {"spsc, close with an error", close_while_busy<SpscRing>(2, true, {1, 0}), 1},
      {"mpmc, close with an error", close_while_busy<MpmcRing>(2, true, {2, 0})},
      {"mpmc, close wakes senders", close_wakes_all<MpmcRing>(true, {1, 0})},
      {"mpmc, close wakes receivers", close_wakes_all<MpmcRing>(false, {1, 0}), 3},
      {"mpmc, close ends two receivers", close_ends_two_receivers<MpmcRing>({1, 0})},
      {"spsc, stop a receiver", stop_receiver<SpscRing>({1, 0}), 3},
      {"mpmc, stop a receiver", stop_receiver<MpmcRing>({1, 0}), 3},
      {"spsc, stop a sender", stop_sender<SpscRing>({1, 0}), 3},
      {"mpmc, stop a sender", stop_sender<MpmcRing>({1, 0}), 3},
      {"mpmc, stop one of two", stop_one_of_two<MpmcRing>({1, 0})},
      {"spsc, deadlines", deadlines<SpscRing>({1, 0}), 3},
      {"mpmc, deadlines", deadlines<MpmcRing>({1, 0}), 3},
      {"spsc, bytes", byte_bound<SpscRing>(3, 2, {2, 4}), 3},
      {"mpmc, bytes", byte_bound<MpmcRing>(3, 2, {2, 4})},
      {"mpmc, the smaller fits", the_smaller_fits<MpmcRing>()},
      {"mpmc, bytes held for a moment", bytes_held_for_a_moment<MpmcRing>({1, 4}), 1},
      {"spsc, batches", batches<SpscRing>({2, 0}), 3},
      {"mpmc, batches", batches<MpmcRing>({2, 0})},
      {"spsc, any of two", any_of_two<SpscRing>({1, 0})},
      {"mpmc, any of two", any_of_two<MpmcRing>({1, 0})},
      {"mpmc, any of two and a rival", any_of_two_and_a_rival<MpmcRing>({1, 0}), 1},
  };
}

class ExploreChannel : public testing::Test {
 protected:
  void SetUp() override {
    if (!kFibers) GTEST_SKIP() << "the explorer needs x86-64, and no ThreadSanitizer";
  }
};

TEST_F(ExploreChannel, EveryScheduleWithinABound) {
  std::uint64_t total = 0;
  for (const Case& one : cases()) {
    DepthFirst strategy(one.budget);
    const Outcome outcome = explore(strategy, {}, kSanitized ? 500 : 1'000'000, one.program);
    EXPECT_FALSE(outcome.failure) << one.name << "\n" << outcome.text();
    std::cout << fmt::format("{:<32} {}", one.name, outcome.text()) << std::endl;
    EXPECT_TRUE(outcome.complete || kSanitized) << one.name;
    total += outcome.interleavings;
  }
  std::cout << total << " interleavings, no two alike\n";
  EXPECT_TRUE(total >= 1'000'000 || kSanitized) << total;
}

TEST_F(ExploreChannel, RandomSchedules) {
  for (const Case& one : cases()) {
    Settings settings;
    settings.spins = 1;
    Random strategy(1, kSanitized ? 200 : 10'000);
    const Outcome outcome = explore(strategy, settings, ~std::uint64_t{0}, one.program);
    EXPECT_FALSE(outcome.failure) << one.name << "\n" << outcome.text();
    std::cout << fmt::format("{:<32} {}", one.name, outcome.text()) << std::endl;
  }
}

// Each planted bug, and a program whose exploration has to find it.
TEST_F(ExploreChannel, PlantedBugsAreFound) {
  const Faults light{.light_fences_only = true}, no_tokens{.no_tokens = true};
  const Faults silent{.silent_stops = true};
  const auto lost = [](unsigned n) { return Faults{.lost_unpark = n}; };
  const struct {
    const char* name;
    Faults faults;
    Program program;
  } plants[] = {
      {"spsc, no barrier in the other thread", light, transfer<SpscRing>(1, 3, {3}, {1, 0})},
      {"mpmc, no barrier in the other thread", light, transfer<MpmcRing>(1, 3, {3}, {1, 0})},
      {"spsc, no barrier before a close", light, close_while_busy<SpscRing>(2, false, {2, 0})},
      {"spsc, a wake-up before the sleep", no_tokens, transfer<SpscRing>(1, 3, {3}, {1, 0})},
      {"mpmc, a wake-up before the sleep", no_tokens, transfer<MpmcRing>(1, 2, {1, 1}, {1, 0})},
      {"spsc, the first wake-up", lost(1), transfer<SpscRing>(1, 3, {3}, {1, 0})},
      {"mpmc, the second wake-up", lost(2), transfer<MpmcRing>(1, 2, {1, 1}, {1, 0})},
      {"mpmc, the second waiter of a close", lost(2), close_wakes_all<MpmcRing>(false, {1, 0})},
      {"spsc, a stop that wakes nobody", silent, stop_sender_for_good<SpscRing>({1, 0})},
      {"mpmc, a stop that wakes nobody", silent, stop_sender_for_good<MpmcRing>({1, 0})},
  };
  for (const auto& plant : plants) {
    Settings settings;
    settings.faults = plant.faults;
    DepthFirst depth_first(2);
    const Outcome found = explore(depth_first, settings, 100'000, plant.program);
    EXPECT_TRUE(found.failure) << plant.name;
    Random random(1, 100'000);
    const Outcome found_at_random = explore(random, settings, 100'000, plant.program);
    EXPECT_TRUE(found_at_random.failure) << plant.name;
    std::cout << fmt::format("{:<40} found after {} interleavings, at random after {}: {}\n",
                             plant.name, found.interleavings, found_at_random.interleavings,
                             found.failure ? found.failure->what : "");
  }
}

}  // namespace
}  // namespace headrace::explore
