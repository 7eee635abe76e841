#include "headrace/executor.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <semaphore>
#include <thread>

#include "headrace/channel.h"
#include "headrace/thread.h"
#include "plans.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using testing_plans::Counting;
using testing_plans::schedule;
using testing_plans::training;

std::vector<std::uint64_t> upto(std::uint64_t count) {
  std::vector<std::uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Executor, ServesEveryBatchOnceUnderEverySchedule) {
  for (const std::string& name : standard_schedules())
    for (const std::uint64_t replicas : {1, 2, 3})
      for (const std::uint64_t batches : {0, 1, 2, 5, 7, 12}) {
        SCOPED_TRACE(fmt::format("{}, {} replicas, {} batches", name, replicas, batches));
        const Plan plan = training(replicas, 2 * replicas);
        Counting counting(batches);
        std::vector<std::uint64_t> steps;
        Executor executor(plan, schedule(name), counting.functions(plan),
                          {.on_step = [&](std::uint64_t step) { steps.push_back(step); }});
        EXPECT_EQ(executor.run(), Outcome::finished);
        const std::uint64_t expected_steps = (batches + replicas - 1) / replicas;
        EXPECT_EQ(executor.steps_completed(), expected_steps);
        EXPECT_EQ(steps, upto(expected_steps));
        for (const char* stage : {"load", "target", "drafter"})
          EXPECT_EQ(sorted(counting.seen(stage)), upto(batches)) << stage;
        EXPECT_EQ(counting.seen("sync").size(), expected_steps);
        EXPECT_EQ(counting.mismatches(), 0u);
      }
}

TEST(Executor, StopsAfterTheStepsAskedFor) {
  const Plan plan = training(2, 4);
  Counting counting(1000);
  Executor executor(plan, schedule("async"), counting.functions(plan), {.steps = 3});
  EXPECT_EQ(executor.run(), Outcome::finished);
  EXPECT_EQ(sorted(counting.seen("drafter")), upto(6));
  EXPECT_THROW(executor.run(), Error) << "an Executor runs once";
}

TEST(Executor, ReadyOrderServesEveryBatchOnce) {
  const Plan plan = training(3, 3, Order::ready);
  Counting counting(50);
  counting.before = [](const std::string& stage, const Context& context) {
    if (stage == "target") std::this_thread::sleep_for(context.firing.replica * 200us);
  };
  Executor executor(plan, schedule("async"), counting.functions(plan), {});
  EXPECT_EQ(executor.run(), Outcome::finished);
  EXPECT_EQ(sorted(counting.seen("drafter")), upto(50));
}

TEST(Executor, ASourceMayBeOnADevice) {
  Plan plan{.name = "three"};
  plan.resources = {{"a"}, {"b"}};
  plan.stages = {{.name = "make", .on = {"a"}, .outputs = {"x"}},
                 {.name = "use", .on = {"b"}, .inputs = {"x"}}};
  plan.channels = {{.name = "x", .items = 2}};
  for (const std::string& name : standard_schedules()) {
    Counting counting(9);
    Executor executor(plan, schedule(name), counting.functions(plan), {});
    EXPECT_EQ(executor.run(), Outcome::finished);
    EXPECT_EQ(counting.seen("use"), upto(9)) << name;
  }
}

// A layered random plan: any stage may read from any earlier one, devices may be shared.
Plan random_plan(std::mt19937& random) {
  Plan plan{.name = "random"};
  const std::size_t stages = 2 + random() % 5, devices = 1 + random() % 4;
  const std::uint64_t per_step = 1 + random() % 2;
  for (std::size_t i = 0; i < devices; ++i) plan.resources.push_back({"r" + std::to_string(i)});
  plan.resources.push_back({"host", ResourceKind::host});
  plan.resources.push_back({"lock", ResourceKind::lock});
  for (std::size_t i = 0; i < stages; ++i) {
    Stage stage{.name = "s" + std::to_string(i), .per_step = per_step};
    stage.on = {i == 0 && random() % 2 == 0 ? "host" : "r" + std::to_string(random() % devices)};
    if (i > 0 && random() % 4 == 0) stage.uses = {"lock"};
    for (std::size_t from = 0; from < i; ++from) {
      if (from + 1 != i && random() % 4 != 0) continue;
      const std::string channel = fmt::format("c{}_{}", from, i);
      plan.channels.push_back({.name = channel, .items = per_step * (1 + random() % 3)});
      plan.stages[from].outputs.push_back(channel);
      stage.inputs.push_back(channel);
    }
    plan.stages.push_back(stage);
  }
  return plan;
}

TEST(Executor, RandomPlansDeliverItemQToFiringQ) {
  const bool holds = rc::check("random plans, all schedules", [](unsigned seed) {
    std::mt19937 random(seed);
    const Plan plan = random_plan(random);
    const std::uint64_t batches = random() % 9;
    for (const std::string& name : standard_schedules()) {
      Counting counting(batches);
      std::optional<Executor> executor;
      try {
        executor.emplace(plan, schedule(name), counting.functions(plan),
                         ExecutorOptions{.watchdog_seconds = 5});
      } catch (const Error& error) {
        // Skip connections over shallow channels may not be able to run; that is said before the
        // run.
        RC_ASSERT(error.code() == ErrorCode::bad_input);
        continue;
      }
      RC_ASSERT(executor->run() == Outcome::finished);
      for (const Stage& stage : plan.stages) RC_ASSERT(counting.seen(stage.name).size() == batches);
      RC_ASSERT(counting.mismatches() == 0u);
    }
  });
  EXPECT_TRUE(holds);
}

TEST(Executor, AnErrorOfAnyStageAtAnyStepIsThrownWithItsPlace) {
  for (const std::string& name : standard_schedules())
    for (const std::string failing : {"load", "target", "drafter", "sync"})
      for (const std::uint64_t step : {0, 1, 4}) {
        SCOPED_TRACE(fmt::format("{}, {} fails in step {}", name, failing, step));
        const Plan plan = training(2, 4);
        Counting counting(1000);
        counting.before = [&](const std::string& stage, const Context& context) {
          if (stage == failing && context.firing.step == step) fail(ErrorCode::io, "planted");
        };
        std::vector<std::uint64_t> steps;
        Executor executor(plan, schedule(name), counting.functions(plan),
                          {.on_step = [&](std::uint64_t done) { steps.push_back(done); }});
        try {
          executor.run();
          FAIL() << "the error was swallowed";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::io);
          const std::string place = fmt::format("stage {}, replica ", failing);
          EXPECT_EQ(std::string(error.what()).substr(0, place.size()), place);
          EXPECT_NE(std::string(error.what()).find(fmt::format(", step {}: planted", step)),
                    std::string::npos);
        }
        EXPECT_EQ(steps, upto(steps.size()));
        EXPECT_LE(steps.size(), step);
        if (failing == "load") {
          EXPECT_EQ(sorted(counting.seen("drafter")), upto(2 * step))
              << "good batches come before the error";
          EXPECT_EQ(steps.size(), step);
        }
      }
}

TEST(Executor, TheFirstErrorWinsAndTheNextRunStartsClean) {
  const Plan plan = training(3, 3);
  for (int round = 0; round < 20; ++round) {
    Counting counting(100);
    std::atomic<int> thrown = 0;
    counting.before = [&](const std::string& stage, const Context&) {
      if (stage == "target") fail(ErrorCode::io, "number {}", thrown++);
    };
    Executor failing(plan, schedule("async"), counting.functions(plan), {});
    EXPECT_THROW(failing.run(), Error);
    Counting good(6);
    Executor clean(plan, schedule("async"), good.functions(plan), {});
    EXPECT_EQ(clean.run(), Outcome::finished);
    EXPECT_EQ(sorted(good.seen("drafter")), upto(6));
  }
}

TEST(Executor, ErrorsOfCallbacksAreNotSwallowed) {
  const Plan plan = training(1, 2);
  Counting counting(10);
  Executor step_fails(plan, schedule("async"), counting.functions(plan),
                      {.on_step = [](std::uint64_t step) {
                        if (step == 2) fail(ErrorCode::io, "disk full");
                      }});
  EXPECT_THROW(step_fails.run(), Error);
  Executor start_fails(
      plan, schedule("async"), counting.functions(plan),
      {.on_worker_start = [](const std::string&) { throw std::runtime_error("no"); }});
  EXPECT_THROW(start_fails.run(), Error);
  Executor bad_core(plan, schedule("async"), counting.functions(plan),
                    {.cores = {{"t0", {100000}}}});
  EXPECT_THROW(bad_core.run(), Error);
}

TEST(Executor, StopsSoonAtAnyTime) {
  for (unsigned round = 0; round < 30; ++round) {
    std::mt19937 random(round);
    const Plan plan = training(1 + round % 3, 3);
    Counting counting(UINT64_MAX);
    counting.before = [](const std::string&, const Context&) {
      std::this_thread::sleep_for(300us);
    };
    std::uint64_t steps = 0;
    Executor executor(plan, schedule(standard_schedules()[round % 3]), counting.functions(plan),
                      {.on_step = [&](std::uint64_t step) { EXPECT_EQ(step, steps++); }});
    std::chrono::steady_clock::time_point asked;
    std::jthread stopper([&, pause = random() % 20000] {
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
      asked = std::chrono::steady_clock::now();
      executor.request_stop();
    });
    EXPECT_EQ(executor.run(), Outcome::stopped);
    stopper.join();
    EXPECT_LT(seconds_since(asked), 2.0);
    EXPECT_EQ(executor.steps_completed(), steps) << "each completed step is reported";
  }
}

TEST(Executor, AStageThatGivesUpIsNotCounted) {
  const Plan plan = training(1, 2);
  Counting counting(UINT64_MAX);
  std::binary_semaphore arrived(0);
  counting.before = [&](const std::string& stage, const Context& context) {
    if (stage != "drafter" || context.firing.step != 3) return;
    arrived.release();
    while (!context.stopping()) std::this_thread::sleep_for(1ms);
    fail(ErrorCode::cancelled, "gave up");
  };
  Executor executor(plan, schedule("async"), counting.functions(plan), {});
  std::jthread stopper([&] { arrived.acquire(), executor.request_stop(); });
  EXPECT_EQ(executor.run(), Outcome::stopped);
  EXPECT_EQ(executor.steps_completed(), 3u);
}

TEST(Executor, WatchdogSaysWhoWaitsForWhom) {
  // Declared sizes are unknown, so the plan looks sound; two real items do not fit, and under
  // lock-step the consumer waits for both.
  Plan plan = training(1, 4);
  for (Stage& stage : plan.stages) stage.per_step = 2;
  plan.channels[1].bytes = 1;
  Counting counting(100);
  std::string seen;
  Executor executor(
      plan, schedule("lockstep"), counting.functions(plan),
      {.watchdog_seconds = 0.2, .on_hang = [&](const std::string& graph) { seen = graph; }});
  const auto start = std::chrono::steady_clock::now();
  try {
    executor.run();
    FAIL() << "that cannot have run";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::hang);
    EXPECT_EQ(std::string(error.what()), seen);
  }
  EXPECT_LT(seconds_since(start), 2.0);
  EXPECT_NE(seen.find("t0: target waits to send to features: 1/4 items, 1 B of 1 B"),
            std::string::npos)
      << seen;
  EXPECT_NE(seen.find("d0: drafter waits for target"), std::string::npos) << seen;
}

TEST(Executor, WatchdogSeesAStageThatWaitsInAChannel) {
  const Plan plan = training(1, 2);
  BoundedChannel<int> replies("replies", {.items = 1});
  Counting counting(100);
  counting.before = [&](const std::string& stage, const Context& context) {
    int reply = 0;
    if (stage == "target" && context.firing.step == 2 &&
        replies.receive(reply, context.stop) != Status::ok)
      fail(ErrorCode::cancelled, "no reply");
  };
  std::string seen;
  Executor executor(
      plan, schedule("async"), counting.functions(plan),
      {.watchdog_seconds = 0.2, .on_hang = [&](const std::string& graph) { seen = graph; }});
  EXPECT_THROW(executor.run(), Error);
  EXPECT_NE(seen.find("t0: target waits to receive from replies: 0/1 items"), std::string::npos)
      << seen;
}

TEST(Executor, ALongStageIsNotAHang) {
  const Plan plan = training(1, 2);
  Counting counting(3);
  counting.before = [](const std::string& stage, const Context&) {
    if (stage == "target") std::this_thread::sleep_for(150ms);
  };
  Executor executor(
      plan, schedule("async"), counting.functions(plan),
      {.watchdog_seconds = 0.05, .on_hang = [](const std::string& graph) { FAIL() << graph; }});
  EXPECT_EQ(executor.run(), Outcome::finished);
}

// It follows the step before, and the run ends with it; its error stops the run like any other.
TEST(Executor, AStageAfterEarlierStepsIsNoSource) {
  Plan plan = training(1, 2);
  plan.resources.push_back({"disk", ResourceKind::host});
  plan.stages.push_back({.name = "save", .on = {"disk"}, .after = {{"sync", 1}}});
  for (const std::string& name : standard_schedules()) {
    Counting counting(5);
    Executor executor(plan, schedule(name), counting.functions(plan), {});
    EXPECT_EQ(executor.run(), Outcome::finished);
    EXPECT_EQ(counting.seen("save"), upto(6));
    EXPECT_EQ(executor.steps_completed(), 5u);

    Counting failing(UINT64_MAX);
    failing.before = [](const std::string& stage, const Context& context) {
      if (stage == "save" && context.firing.step == 3) fail(ErrorCode::io, "the disk is full");
    };
    EXPECT_THROW(Executor(plan, schedule(name), failing.functions(plan), {}).run(), Error);
  }
}

TEST(Executor, TheTracesHashIsThatOfThePlanAsRun) {
  Plan plan = training(1, 2);
  const TraceHeader header = trace_header(plan, schedule("async"));
  plan.schedule = schedule("async");
  for (Stage& stage : plan.stages) stage.cost = Cost::of(0.5);
  EXPECT_EQ(header.plan_hash, plan_hash(parse_plan(write_plan(plan), "plan.yaml")));
}

TEST(Executor, AHangThatEndsTheRunIsToldOnce) {
  Plan plan = training(1, 4);
  for (Stage& stage : plan.stages) stage.per_step = 2;
  plan.channels[1].bytes = 1;
  Counting counting(100);
  Executor executor(plan, schedule("lockstep"), counting.functions(plan),
                    {.watchdog_seconds = 0.2});
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(executor.run(), Error);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Executor, RefusesWhatCannotRun) {
  Plan unknown = training(1, 1);
  unknown.stages[1].on = {"nowhere"};
  EXPECT_THROW(Executor(unknown, schedule("async"), Counting(1).functions(unknown), {}), Error);
  Plan plan = training(1, 1);
  Counting counting(1);
  auto functions = counting.functions(plan);
  functions.erase("sync");
  EXPECT_THROW(Executor(plan, schedule("async"), functions, {}), Error);
  functions = counting.functions(plan);
  functions["typo"] = functions["sync"];
  EXPECT_THROW(Executor(plan, schedule("async"), functions, {}), Error);
  EXPECT_THROW(
      Executor(plan, schedule("async"), counting.functions(plan), {.cores = {{"typo", {0}}}}),
      Error);
  EXPECT_THROW(Executor(plan, schedule("sideways"), counting.functions(plan), {}), Error);
  for (Stage& stage : plan.stages) stage.per_step = 2;  // lock-step needs both items in the channel
  try {
    Executor executor(plan, schedule("lockstep"), counting.functions(plan), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("features"), std::string::npos) << error.what();
  }
}

TEST(Executor, WorkersRunOnTheCoresAskedFor) {
  const Plan plan = training(1, 2);
  const int core = allowed_cores().back();
  Counting counting(4);
  std::atomic<int> elsewhere = 0;
  counting.before = [&](const std::string& stage, const Context&) {
    if (stage == "target" && allowed_cores() != std::vector<int>{core}) ++elsewhere;
  };
  Executor executor(plan, schedule("async"), counting.functions(plan), {.cores = {{"t0", {core}}}});
  EXPECT_EQ(executor.run(), Outcome::finished);
  EXPECT_EQ(elsewhere, 0);
}

}  // namespace
}  // namespace headrace
