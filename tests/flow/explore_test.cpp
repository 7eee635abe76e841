// The explorer itself: that it shows what memory may do and no more, and that it finds lost wake-ups
// planted into a protocol of the kind that channels use.
#include "flow/explore/explore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace headrace::explore {
namespace {

using Order = std::memory_order;
constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

class Explore : public testing::Test {
 protected:
  void SetUp() override {
    if (!kFibers) GTEST_SKIP() << "the explorer needs x86-64, and no ThreadSanitizer";
  }
};

Outcome explore_all(const Program& program, const Settings& settings = {}) {
  DepthFirst strategy(DepthFirst::kUnbounded);
  return explore(strategy, settings, kNoLimit, program);
}

enum class Fence { none, heavy_and_light, heavy_and_heavy, light_and_light };

// What two threads see that each store and then look at the other's store: all outcomes.
std::set<std::pair<int, int>> store_buffering(Fence fence) {
  std::set<std::pair<int, int>> outcomes;
  const Outcome outcome = explore_all([&](Model& model) {
    ModelSync::Atomic<int> x(0), y(0);
    int saw_x = 0, saw_y = 0;
    model.thread("left", [&] {
      x.store(1, Order::relaxed);
      if (fence == Fence::light_and_light || fence == Fence::heavy_and_light)
        ModelSync::light_fence();
      if (fence == Fence::heavy_and_heavy) ModelSync::heavy_fence();
      saw_y = y.load(Order::relaxed);
    });
    model.thread("right", [&] {
      y.store(1, Order::relaxed);
      if (fence == Fence::light_and_light) ModelSync::light_fence();
      if (fence == Fence::heavy_and_light || fence == Fence::heavy_and_heavy)
        ModelSync::heavy_fence();
      saw_x = x.load(Order::relaxed);
    });
    model.run();
    outcomes.insert({saw_x, saw_y});
  });
  EXPECT_FALSE(outcome.failure) << outcome.text();
  EXPECT_TRUE(outcome.complete);
  return outcomes;
}

TEST_F(Explore, StoresAreBufferedUnlessOneSideHasAHeavyFence) {
  const std::set<std::pair<int, int>> ordered{{0, 1}, {1, 0}, {1, 1}};
  auto all = ordered;
  all.insert({0, 0});
  EXPECT_EQ(store_buffering(Fence::none), all);
  EXPECT_EQ(store_buffering(Fence::light_and_light), all);
  EXPECT_EQ(store_buffering(Fence::heavy_and_light), ordered);
  EXPECT_EQ(store_buffering(Fence::heavy_and_heavy), ordered);
}

TEST_F(Explore, AtomicUpdatesAndMutexesAreFences) {
  for (const bool with_mutex : {false, true}) {
    const Outcome outcome = explore_all([&](Model& model) {
      ModelSync::Atomic<int> x(0), y(0);
      ModelSync::Mutex mutexes[2];
      int saw[2] = {};
      const auto body = [&](int side, auto& mine, auto& other) {
        mine.store(1, with_mutex ? Order::relaxed : Order::seq_cst);
        if (with_mutex) const std::lock_guard lock(mutexes[side]);
        saw[side] = other.load(Order::seq_cst);
      };
      model.thread("left", [&] { body(0, x, y); });
      model.thread("right", [&] { body(1, y, x); });
      model.run();
      model.require(saw[0] + saw[1] != 0, "both stores were missed");
    });
    EXPECT_FALSE(outcome.failure) << outcome.text();
    EXPECT_TRUE(outcome.complete);
  }
}

TEST_F(Explore, MessagesArePassedInOrder) {
  std::set<std::pair<int, int>> outcomes;
  const Outcome outcome = explore_all([&](Model& model) {
    ModelSync::Atomic<int> data(0), flag(0);
    int saw_flag = 0, saw_data = 0;
    model.thread("writer", [&] {
      data.store(1, Order::relaxed);
      flag.store(1, Order::release);
    });
    model.thread("reader", [&] {
      saw_flag = flag.load(Order::acquire);
      saw_data = data.load(Order::relaxed);
    });
    model.run();
    outcomes.insert({saw_flag, saw_data});
  });
  EXPECT_FALSE(outcome.failure) << outcome.text();
  const std::set<std::pair<int, int>> expected{{0, 0}, {0, 1}, {1, 1}};
  EXPECT_EQ(outcomes, expected);
}

TEST_F(Explore, UpdatesAreNotLostAndIncrementsByLoadAndStoreAre) {
  for (const bool atomic : {true, false}) {
    const Outcome outcome = explore_all([&](Model& model) {
      ModelSync::Atomic<int> count(0);
      for (const char* name : {"a", "b", "c"})
        model.thread(name, [&] {
          if (atomic)
            count.fetch_add(1, Order::relaxed);
          else
            count.store(count.load(Order::relaxed) + 1, Order::relaxed);
        });
      model.run();
      model.require(count.load() == 3, "an increment was lost");
    });
    EXPECT_EQ(outcome.failure.has_value(), !atomic) << outcome.text();
  }
}

// Two threads of three steps each have 6! / 3! / 3! = 20 orders.
TEST_F(Explore, SchedulesThatDifferInIndependentStepsAloneAreRunOnce) {
  for (const bool same : {true, false}) {
    const Outcome outcome = explore_all([&](Model& model) {
      ModelSync::Atomic<int> cells[2];
      for (int t = 0; t < 2; ++t)
        model.thread(t == 0 ? "a" : "b", [&, t] {
          for (int i = 0; i < 3; ++i) cells[same ? 0 : t].fetch_add(1);
        });
      model.run();
    });
    EXPECT_EQ(outcome.interleavings, same ? 20 : 1) << outcome.text();
    EXPECT_TRUE(outcome.complete);
  }
}

TEST_F(Explore, ADeadlockIsAFailureThatNamesWhoWaitsAndCanBeReplayed) {
  const Program program = [](Model& model) {
    ModelSync::Mutex a, b;
    const auto both = [](auto& first, auto& second) {
      const std::lock_guard one(first), two(second);
    };
    model.thread("ab", [&] { both(a, b); });
    model.thread("ba", [&] { both(b, a); });
    model.run();
  };
  DepthFirst strategy(1);
  const Outcome outcome = explore(strategy, {}, kNoLimit, program);
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->what, "deadlock: ab locks #2; ba locks #1");
  const auto choices = choices_of(choices_text(outcome.failure->choices));
  const auto again = replay(choices, {}, program);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->schedule, outcome.failure->schedule);
}

TEST_F(Explore, LeaksEndlessLoopsAndUseAfterDestructionAreFailures) {
  const auto failure_of = [](const Program& program) {
    const Outcome outcome = explore_all(program);
    return outcome.failure ? outcome.failure->what : "none";
  };
  std::vector<std::unique_ptr<ModelSync::Parker>> kept;
  EXPECT_EQ(failure_of([&](Model& model) {
              model.thread("a", [&] { kept.push_back(std::make_unique<ModelSync::Parker>()); });
              model.run();
            }),
            "1 objects leak");
  EXPECT_EQ(failure_of([](Model& model) {
              ModelSync::Atomic<bool> never(false);
              model.thread("a", [&] {
                while (!never.load()) {
                }
              });
              model.run();
            }),
            "no end after 5000 steps");
  EXPECT_THAT(failure_of([](Model& model) {
                ModelSync::Atomic<bool> flag(false);
                model.thread("waiter", [&] {
                  while (!flag.load()) {
                  }
                });
                model.thread("setter", [&] { flag.store(true); });
                model.run();
              }),
              testing::EndsWith("it waits without sleeping"));
  EXPECT_THAT(failure_of([](Model& model) {
                std::optional<ModelSync::Parker> parker(std::in_place);
                model.thread("waker", [&] { parker->unpark(); });
                model.thread("sleeper", [&] { parker.reset(); });
                model.run();
              }),
              testing::StartsWith("waker uses what is destroyed"));
}

TEST_F(Explore, StopCallbacksRunOnceAndAreWaitedFor) {
  const Outcome outcome = explore_all([](Model& model) {
    ModelSync::StopSource source;
    int calls = 0;
    bool requested_before = false;
    std::optional<ModelSync::Parker> parker(std::in_place);
    model.thread("stopper", [&] { source.request_stop(); });
    model.thread("worker", [&] {
      const auto token = source.get_token();
      {
        const auto callback = [&] {
          ++calls;
          parker->unpark();  // must not come after the end of the scope
        };
        requested_before = token.stop_requested();
        const ModelSync::StopCallback<decltype(callback)> registered(token, callback);
        model.require(!requested_before || calls == 1, "the callback has to run at once");
      }
      parker.reset();
    });
    model.run();
    model.require(calls <= 1, "a callback ran twice");
  });
  EXPECT_FALSE(outcome.failure) << outcome.text();
  EXPECT_TRUE(outcome.complete);
}

// An event to wait for, as channels have it: who waits announces it, passes the heavy fence, looks
// once more, sleeps.
enum class Bug { none, no_second_look, light_fence, wake_before_publication };

class Event {
 public:
  explicit Event(Bug bug) : bug_(bug) {}

  template <typename Ready>
  void wait(const ModelSync::Deadline& deadline, Ready ready) {
    while (!ready()) {
      sleepers_.store(1, Order::relaxed);
      if (bug_ != Bug::light_fence) ModelSync::heavy_fence();
      if (bug_ == Bug::no_second_look || !ready()) parker_.park(deadline);
      sleepers_.store(0, Order::relaxed);
      if (ModelSync::passed(deadline)) return;
    }
  }

  template <typename Publish>
  void notify(Publish publish) {
    if (bug_ != Bug::wake_before_publication) publish();
    ModelSync::light_fence();
    if (sleepers_.load(Order::relaxed) != 0) parker_.unpark();
    if (bug_ == Bug::wake_before_publication) publish();
  }

 private:
  const Bug bug_;
  ModelSync::Atomic<int> sleepers_{0};
  ModelSync::Parker parker_;
};

Program ping_pong(Bug bug, bool timed) {
  return [=](Model& model) {
    Event filled(bug), emptied(bug);
    ModelSync::Atomic<int> slot(0);
    const auto deadline = [=] {
      return timed ? ModelSync::after(std::chrono::seconds(1)) : std::nullopt;
    };
    model.thread("sender", [&] {
      filled.notify([&] { slot.store(1, Order::release); });
      emptied.wait(deadline(), [&] { return slot.load(Order::acquire) == 0; });
    });
    model.thread("receiver", [&] {
      const auto end = deadline();
      filled.wait(end, [&] { return slot.load(Order::acquire) == 1; });
      if (slot.load(Order::acquire) == 1) emptied.notify([&] { slot.store(0, Order::release); });
      model.require(timed || slot.load(Order::relaxed) == 0, "the slot was not filled");
    });
    model.run();
  };
}

TEST_F(Explore, AnEventLosesNoWakeUp) {
  for (const bool timed : {false, true}) {
    DepthFirst strategy(timed ? 4 : DepthFirst::kUnbounded);  // the timed one is a million
    const Outcome outcome =
        explore(strategy, {}, kSanitized ? 5'000 : kNoLimit, ping_pong(Bug::none, timed));
    EXPECT_FALSE(outcome.failure) << outcome.text();
    EXPECT_TRUE(outcome.complete || kSanitized);
    std::cout << outcome.text() << "\n";
  }
}

TEST_F(Explore, APlantedLostWakeUpIsFoundByEitherStrategy) {
  for (const Bug bug : {Bug::no_second_look, Bug::light_fence, Bug::wake_before_publication}) {
    DepthFirst depth_first(2);
    const Outcome found = explore(depth_first, {}, 10'000, ping_pong(bug, false));
    ASSERT_TRUE(found.failure) << static_cast<int>(bug);
    EXPECT_THAT(found.failure->what, testing::HasSubstr("parks"));
    EXPECT_FALSE(found.failure->schedule.empty());
    Random random(1, 10'000);
    EXPECT_TRUE(explore(random, {}, kNoLimit, ping_pong(bug, false)).failure)
        << static_cast<int>(bug);
  }
  for (const bool lost : {false, true}) {
    Settings settings;
    settings.faults.light_fences_only = !lost;
    settings.faults.lost_unpark = lost ? 2 : 0;
    DepthFirst strategy(3);
    EXPECT_TRUE(explore(strategy, settings, 100'000, ping_pong(Bug::none, false)).failure);
  }
}

}  // namespace
}  // namespace headrace::explore
