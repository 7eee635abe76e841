// What broke in other pipelines, as tests of this one. Each names the report that it comes from.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <semaphore>
#include <thread>

#include "headrace/channel.h"
#include "headrace/error.h"
#include "plans.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using testing_plans::Counting;
using testing_plans::schedule;
using testing_plans::training;

// oneTBB#634: a limiter node lost a decrement, and the graph stopped. A channel of one item is a
// limiter: every item given back has to let the next one in, also when both happen at once.
TEST(FieldCases, ALimiterOfOneLosesNoDecrement) {
  const Plan plan = training(3, 3, Order::ready);
  Plan narrow = training(1, 1);
  for (const Plan& one : {plan, narrow}) {
    Counting counting(2000);
    Executor executor(one, schedule("async"), counting.functions(one), {.watchdog_seconds = 60});
    EXPECT_EQ(executor.run(), Outcome::finished);
    EXPECT_EQ(counting.seen("drafter").size(), 2000u);
  }
}

// oneTBB#406, #420: an exception in one node left another in pop() for ever. taskflow#730: an
// exception in a task that held a semaphore woke none of those who waited for it.
TEST(FieldCases, AnExceptionWakesWhoeverWaits) {
  Plan plan = training(2, 4);
  plan.resources.push_back({"gate", ResourceKind::lock});
  plan.stages[1].uses = plan.stages[2].uses = {"gate"};
  BoundedChannel<int> never("never", {.items = 1});
  for (const std::string failing : {"load", "target", "drafter", "sync"}) {
    Counting counting(UINT64_MAX);
    counting.before = [&](const std::string& stage, const Context& context) {
      if (stage == failing && context.firing.step == 3) fail(ErrorCode::io, "planted");
      int item = 0;  // the others wait inside their function by then
      if (context.firing.step == 4 && never.receive(item, context.stop) == Status::stopped)
        fail(ErrorCode::cancelled, "stopped");
    };
    Executor executor(plan, schedule("async"), counting.functions(plan), {.watchdog_seconds = 1});
    try {
      executor.run();
      FAIL() << failing;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
    }
  }
}

// oneTBB#253: cancelled work came back as if it were done. mediapipe#3830: a cancel during open made
// the next run deadlock.
TEST(FieldCases, ACancelledRunIsNotDoneAndTheNextOneRuns) {
  const Plan plan = training(2, 4);
  for (int round = 0; round < 20; ++round) {
    Counting counting(8);
    std::binary_semaphore opening(0);
    Executor executor(plan, schedule("async"), counting.functions(plan),
                      {.on_worker_start = [&](const std::string& resource) {
                        if (resource == "t1") opening.release();
                        if (resource == "d1") std::this_thread::sleep_for(1ms);
                      }});
    const std::jthread stopper([&] { opening.acquire(), executor.request_stop(); });
    const Outcome outcome = executor.run();
    // A stop that comes after the last step, before the source has said so, still is one.
    EXPECT_TRUE(outcome == Outcome::stopped || counting.seen("sync").size() == 4u);
    EXPECT_TRUE(outcome == Outcome::stopped || executor.steps_completed() == 4u);
    Counting again(8);
    Executor next(plan, schedule("async"), again.functions(plan), {});
    EXPECT_EQ(next.run(), Outcome::finished);
    EXPECT_EQ(again.seen("sync").size(), 4u);
  }
}

// folly#1864: two blocking pools that fed one another deadlocked once both were full. A cycle of
// data is refused, and one over a step's border runs with the smallest channels.
TEST(FieldCases, PoolsThatFeedOneAnotherAreRefusedOrRun) {
  Plan plan{.name = "pools"};
  plan.resources = {{"a"}, {"b"}};
  plan.stages = {{.name = "there", .on = {"a"}, .inputs = {"back"}, .outputs = {"forth"}},
                 {.name = "again", .on = {"b"}, .inputs = {"forth"}, .outputs = {"back"}}};
  plan.channels = {{.name = "forth"}, {.name = "back"}};
  try {
    Executor refused(plan, schedule("async"), Counting(1).functions(plan), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("there -> again -> there"), std::string::npos)
        << error.what();
  }
  plan.stages[0].inputs.clear();
  plan.stages[0].after = {{"again", 1}};
  plan.stages[1].outputs.clear();
  plan.channels.pop_back();
  Counting counting(2000);
  Executor executor(plan, schedule("async"), counting.functions(plan), {});
  EXPECT_EQ(executor.run(), Outcome::finished);
  EXPECT_EQ(counting.seen("again").size(), 2000u);
}

// mediapipe#204: a queue was made longer "to resolve a deadlock", and memory grew. Here the bound
// holds while its consumer stands still, and the plan that needs more is refused.
TEST(FieldCases, NoQueueGrowsBeyondItsBound) {
  const Plan plan = training(1, 2);
  std::atomic<std::int64_t> inside = 0, most = 0;
  Counting counting(200);
  counting.before = [&](const std::string& stage, const Context&) {
    if (stage == "target") most = std::max(most.load(), ++inside);
    if (stage == "drafter") {
      std::this_thread::sleep_for(200us);
      --inside;
    }
  };
  Executor executor(plan, schedule("async"), counting.functions(plan), {});
  EXPECT_EQ(executor.run(), Outcome::finished);
  EXPECT_LE(most, 2 + 2) << "two in the channel, one in the hands of each side";
}

// holoscan-sdk#18: a freeze after minutes, and one in shutdown. Many short runs, stopped and not.
TEST(FieldCases, ManyRunsEndAsTheyShould) {
  const Plan plan = training(2, 2);
  for (unsigned round = 0; round < 200; ++round) {
    Counting counting(12);
    Executor executor(plan, schedule(standard_schedules()[round % 3]), counting.functions(plan),
                      {.watchdog_seconds = 60});
    std::jthread stopper;
    if (round % 2 == 1)
      stopper = std::jthread([&, round] {
        std::this_thread::sleep_for(std::chrono::microseconds(17 * round % 400));
        executor.request_stop();
      });
    const Outcome outcome = executor.run();
    EXPECT_TRUE(outcome == Outcome::finished || round % 2 == 1);
    EXPECT_TRUE(outcome == Outcome::stopped || executor.steps_completed() == 6u);
  }
}

// DALI#2551: fewer items than the queue is deep, and the pipeline hung.
TEST(FieldCases, FewerItemsThanTheQueueIsDeep) {
  const Plan plan = training(2, 64);
  for (const std::string& name : standard_schedules())
    for (const std::uint64_t batches : {0, 1, 2, 3, 63}) {
      Counting counting(batches);
      Executor executor(plan, schedule(name), counting.functions(plan), {.watchdog_seconds = 60});
      EXPECT_EQ(executor.run(), Outcome::finished);
      EXPECT_EQ(counting.seen("drafter").size(), batches);
    }
}

// torchrec PR 4158: ranks that ran out of data at different steps left the others in a collective.
// Each rank reads its own source; the shortest ends the run for all, after the same step.
TEST(FieldCases, RanksThatRunOutUnevenlyEndTogether) {
  for (const std::string& name : standard_schedules())
    for (const std::uint64_t shorter : {0, 1, 5}) {
      Plan plan{.name = "ranks"};
      plan.resources = {{"h0", ResourceKind::host}, {"h1", ResourceKind::host}, {"r0"}, {"r1"}};
      plan.stages = {{.name = "read0", .on = {"h0"}, .outputs = {"x0"}},
                     {.name = "read1", .on = {"h1"}, .outputs = {"x1"}},
                     {.name = "step0", .on = {"r0"}, .inputs = {"x0"}, .outputs = {"g0"}},
                     {.name = "step1", .on = {"r1"}, .inputs = {"x1"}, .outputs = {"g1"}},
                     {.name = "reduce", .on = {"r0", "r1"}, .inputs = {"g0", "g1"}}};
      plan.channels = {{"x0", 3}, {"x1", 3}, {"g0", 1}, {"g1", 1}};
      Counting counting(UINT64_MAX);
      auto functions = counting.functions(plan);
      functions["read1"] = [shorter](Context& context) {
        context.outputs[0].payload = context.firing.sequence;
        return context.firing.sequence < shorter;
      };
      Executor executor(plan, schedule(name), functions, {.watchdog_seconds = 60});
      EXPECT_EQ(executor.run(), Outcome::finished);
      EXPECT_EQ(counting.seen("reduce").size(), shorter);
      EXPECT_EQ(counting.seen("step1").size(), shorter);
    }
}

}  // namespace
}  // namespace headrace
