#include "record/run_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <vector>

namespace headrace {
namespace {

// A machine whose time passes by being looked at. The counter ticks evenly; the clock is slewed.
struct Machine {
  static inline bool counter_is_invariant;
  static inline double counter, clock_ns, ticks_per_ns, clock_rate, clock_reading_ns;
  static inline std::mt19937_64 random;

  static void start() {
    counter_is_invariant = true;
    counter = 1e15, clock_ns = 5e12, ticks_per_ns = 2.6, clock_rate = 1, clock_reading_ns = 20;
    random.seed(7);
  }
  static double uniform(double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random);
  }
  static void pass(double ns) {
    counter += ns * ticks_per_ns;
    clock_ns += ns * clock_rate;
  }

  static bool has_counter() { return counter_is_invariant; }
  static std::uint64_t ticks() {
    pass(uniform(10, 20));
    if (uniform(0, 1) < 0.01) pass(50'000);  // another program's turn
    return static_cast<std::uint64_t>(counter);
  }
  static std::int64_t monotonic_ns() {
    pass(uniform(0.5, 1) * clock_reading_ns);
    const double now = clock_ns;
    pass(uniform(0.5, 1) * clock_reading_ns);
    return static_cast<std::int64_t>(now);
  }
};
using SimulatedClock = BasicRunClock<Machine>;

// How far readings stray from a clock: each reading lies between two of the clock, so the clock at
// the start, which nobody knows exactly, lies between `low` and `high`.
struct Stray {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  void add(std::int64_t clock_before, std::int64_t reading, std::int64_t clock_after) {
    low = std::max(low, clock_before - reading);
    high = std::min(high, clock_after - reading);
  }
  std::int64_t ns() const { return low - high; }  // under 0: none that can be seen
};

TEST(RunClock, StaysWithTheClockForAnHourAndNeverGoesBack) {
  Machine::start();
  const SimulatedClock clock;
  ASSERT_TRUE(clock.uses_counter());
  const double end = Machine::clock_ns + 3600e9;
  Stray stray;
  std::int64_t last = 0;
  double next_slew = 0;
  while (Machine::clock_ns < end) {
    Machine::pass(std::exp(Machine::uniform(std::log(20.0), std::log(2e9))));
    if (Machine::clock_ns > next_slew) {
      next_slew = Machine::clock_ns + 1e9;
      Machine::clock_rate =
          std::clamp(Machine::clock_rate + Machine::uniform(-5e-6, 5e-6), 1 - 1e-4, 1 + 1e-4);
    }
    for (int i = 0; i < 20; ++i) {
      const auto before = static_cast<std::int64_t>(Machine::clock_ns);
      const std::int64_t now = clock.now_ns();
      stray.add(before, now, static_cast<std::int64_t>(Machine::clock_ns));
      ASSERT_GE(now, last);
      last = now;
      Machine::pass(Machine::uniform(0, 2e6));
    }
  }
  EXPECT_TRUE(clock.uses_counter());
  EXPECT_LT(stray.ns(), 300);
}

// No daemon slews by more than a twelfth.
TEST(RunClock, NeverGoesBackHoweverHardTheClockIsSlewed) {
  Machine::start();
  const SimulatedClock clock;
  Stray stray;
  std::int64_t last = 0;
  for (int i = 0; i < 100'000; ++i) {
    if (i % 500 == 0) Machine::clock_rate = 1 + Machine::uniform(-0.083, 0.083) / 2;
    const auto before = static_cast<std::int64_t>(Machine::clock_ns);
    const std::int64_t now = clock.now_ns();
    stray.add(before, now, static_cast<std::int64_t>(Machine::clock_ns));
    ASSERT_GE(now, last);
    last = now;
    Machine::pass(Machine::uniform(0, 200'000));
  }
  EXPECT_TRUE(clock.uses_counter());
  EXPECT_LT(stray.ns(), 2 * 16'000'000 * 0.083);
}

TEST(RunClock, WithoutACounterToTrustItIsTheClock) {
  for (const bool invariant : {false, true}) {
    Machine::start();
    Machine::counter_is_invariant = invariant;
    if (invariant) Machine::clock_reading_ns = 2000;  // the kernel asks another device
    const auto before = static_cast<std::int64_t>(Machine::clock_ns);
    const SimulatedClock clock;
    EXPECT_FALSE(clock.uses_counter());
    Stray stray;
    for (int i = 0; i < 1000; ++i) {
      Machine::pass(Machine::uniform(0, 1e9));
      const auto earlier = static_cast<std::int64_t>(Machine::clock_ns);
      const std::int64_t now = clock.now_ns();
      stray.add(earlier, now, static_cast<std::int64_t>(Machine::clock_ns));
    }
    EXPECT_LE(stray.ns(), 0);
    EXPECT_GE(stray.high, before);
  }
}

TEST(RunClock, LeavesACounterThatChangesItsRateOrIsReset) {
  const std::vector<std::function<void()>> faults = {
      [] { Machine::ticks_per_ns = 1.3; }, [] { Machine::ticks_per_ns = 5.2; },
      [] { Machine::counter = 0; }, [] { Machine::counter += 1e12; }};
  for (const auto& fault : faults) {
    SCOPED_TRACE(&fault - faults.data());
    Machine::start();
    const SimulatedClock clock;
    const std::int64_t start = static_cast<std::int64_t>(Machine::clock_ns) - clock.now_ns();
    std::int64_t last = 0;
    const auto read = [&] {
      Machine::pass(Machine::uniform(0, 1e6));
      const std::int64_t now = clock.now_ns();
      EXPECT_GE(now, last);
      last = now;
      return now;
    };
    for (int i = 0; i < 1000; ++i) read();
    ASSERT_TRUE(clock.uses_counter());
    fault();
    // A window may pass before it is noticed.
    for (int i = 0; i < 1000; ++i) read();
    const std::int64_t now = read();
    EXPECT_FALSE(clock.uses_counter());
    EXPECT_NEAR(static_cast<double>(now),
                static_cast<double>(static_cast<std::int64_t>(Machine::clock_ns) - start), 60'000);
  }
}

TEST(RunClock, FollowsTheSteadyClockOfThisMachine) {
  const auto steady = [] {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  const RunClock clock;
  Stray stray;
  const std::int64_t end = steady() + 300'000'000;
  for (std::int64_t after = 0; after < end;) {
    const std::int64_t before = steady(), now = clock.now_ns();
    after = steady();
    stray.add(before, now, after);
  }
  EXPECT_LT(stray.ns(), 1000);
}

// Whoever takes the lock later reads no earlier time, also while the clock changes its line.
TEST(RunClock, NeverGoesBackFromOneThreadToAnother) {
  const RunClock clock;
  std::mutex mutex;
  std::int64_t last = 0, backward = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (std::int64_t now = 0; now < 200'000'000;) {
          const std::lock_guard lock(mutex);
          now = clock.now_ns();
          if (now < last) ++backward;
          last = now;
        }
      });
  }
  EXPECT_EQ(backward, 0);
}

}  // namespace
}  // namespace headrace
