#include "headrace/replan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "headrace/error.h"
#include "headrace/simulator.h"
#include "plans.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_plans::Counting;
using testing_plans::schedule;
using testing_plans::UntilReplanned;

// A producer that takes 9 ms every eighth time and 1 ms else (2 ms on average), before a consumer
// of 2 ms: one item between them does not carry the consumer over the long ones.
Plan bursty() {
  Plan plan{.name = "bursty"};
  plan.resources = {{"host", ResourceKind::host}, {"a"}, {"b"}};
  plan.stages = {{.name = "load", .on = {"host"}, .cost = Cost::of(0), .outputs = {"rows"}},
                 {.name = "make", .on = {"a"}, .inputs = {"rows"}, .outputs = {"x"}},
                 {.name = "use", .on = {"b"}, .cost = Cost::of(0.002), .inputs = {"x"}}};
  plan.stages[1].cost.samples = {.001, .001, .001, .001, .001, .001, .001, .009};
  plan.channels = {{.name = "rows", .items = 4}, {.name = "x", .items = 1}};
  return plan;
}

TEST(Replan, BurstsAreBridgedByTheLeastDepthThatDoes) {
  const ReplanOutcome outcome =
      propose_replan(bursty(), schedule("async"), {.after_steps = 8, .items = 64});
  ASSERT_EQ(outcome.changes.size(), 1u) << outcome.reason;
  const ReplanChange& change = outcome.changes.front();
  EXPECT_EQ(change.what, "items");
  EXPECT_EQ(change.name, "x");
  EXPECT_GT(outcome.predicted_gain(), 0.2);
  EXPECT_LT(change.to, 64u) << "some depth is enough";
  Plan shallower = outcome.plan;
  --shallower.channels[1].items;
  const auto step = [&](const Plan& plan) {
    return simulate(plan, schedule("async"), {.steps = 500, .keep_spans = false}).step_seconds;
  };
  EXPECT_NEAR(step(outcome.plan), outcome.predicted_after, 1e-12);
  EXPECT_GT(step(shallower), step(outcome.plan));
}

TEST(Replan, NothingToGainIsLeftAloneAndSaysSo) {
  Plan plan = bursty();
  plan.stages[1].cost = Cost::of(0.002);
  const ReplanOutcome outcome =
      propose_replan(plan, schedule("async"), {.after_steps = 8, .items = 64});
  EXPECT_THAT(outcome.changes, ElementsAre());
  EXPECT_EQ(outcome.plan, plan);
  EXPECT_EQ(to_text(outcome),
            "not re-planned: the model predicts 0.0 % at most, and 5.0 % is asked for");
  EXPECT_EQ(propose_replan(bursty(), schedule("async"), {.after_steps = 8}).reason,
            "the limits leave nothing to change");
}

TEST(Replan, ASlowStageOfTheHostGetsAsManyWorkersAsItNeeds) {
  Plan plan = bursty();
  plan.stages[0].cost = Cost::of(0.005);
  plan.stages[1].cost = Cost::of(0.002);
  const ReplanOutcome outcome =
      propose_replan(plan, schedule("async"), {.after_steps = 8, .host_workers = {{"load", 8}}});
  EXPECT_THAT(outcome.changes, ElementsAre(ReplanChange{"workers", "load", 1, 3}));
  EXPECT_EQ(outcome.plan.stage("load").on, (std::vector<std::string>{"host", "load.1", "load.2"}));
  EXPECT_NEAR(outcome.predicted_gain(), 0.6, 0.01);
  EXPECT_NO_THROW(validate(outcome.plan, "p"));
}

TEST(Replan, BytesBoundTheDepth) {
  Plan plan = bursty();
  plan.channels[1].item_bytes = 1000;
  plan.channels[1].bytes = 1000;
  const auto depth = [&](std::uint64_t bytes) {
    const ReplanOutcome outcome =
        propose_replan(plan, schedule("async"), {.after_steps = 8, .items = 64, .bytes = bytes});
    EXPECT_EQ(outcome.plan.channels[1].bytes, 1000 * outcome.plan.channels[1].items);
    return outcome.plan.channels[1].items;
  };
  EXPECT_EQ(depth(0), 1u) << "the channel's own bound stays";
  EXPECT_EQ(depth(2999), 2u);
}

TEST(Replan, LimitsThatMakeNoSenseAreRefused) {
  const Plan plan = bursty();
  for (const ReplanOptions& options :
       {ReplanOptions{.after_steps = 1}, ReplanOptions{.after_steps = 8, .items = UINT64_MAX},
        ReplanOptions{.after_steps = 8, .host_workers = {{"load", UINT64_MAX}}},
        ReplanOptions{.after_steps = 8, .host_workers = {{"x", 2}}},
        ReplanOptions{.after_steps = 8, .host_workers = {{"use", 2}}}})
    EXPECT_THROW(
        Executor(plan, schedule("async"), Counting(1).functions(plan), {.replan = options}), Error);
}

TEST(Replan, AStopEndsTheProposal) {
  std::stop_source stop;
  stop.request_stop();
  try {
    propose_replan(bursty(), schedule("async"), {.after_steps = 8, .items = 64}, stop.get_token());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
}

// Functions that sleep as long as the plan's costs say, the samples in turn.
std::map<std::string, StageFunction> sleeping(const Plan& plan, Counting& counting) {
  counting.before = [&plan](const std::string& stage, const Context& context) {
    const std::vector<double>& costs = plan.stage(stage).cost.samples;
    std::this_thread::sleep_for(
        std::chrono::duration<double>(costs[context.firing.sequence % costs.size()]));
  };
  return counting.functions(plan);
}

std::vector<std::uint64_t> upto(std::uint64_t count) {
  std::vector<std::uint64_t> numbers(count);
  for (std::uint64_t i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

// A busy machine may sleep so late that depth would not help: some attempt is not disturbed.
TEST(Replan, ARunGoesOnDeeperAndLosesNothing) {
  Plan plan = bursty();
  for (Stage& stage : plan.stages)
    for (double& seconds : stage.cost.samples) seconds *= 10;
  ReplanOutcome outcome;
  for (int attempt = 0; attempt < 20 && outcome.applied_at_step == 0; ++attempt) {
    Counting counting(5000);
    UntilReplanned until("load", sleeping(plan, counting));
    Executor executor(plan, schedule("async"), until.functions(),
                      {.replan = {.after_steps = 24, .items = 64}});
    until.watch(executor);
    EXPECT_EQ(executor.run(), Outcome::finished);
    ASSERT_NE(until.batches(), UINT64_MAX) << "it never decided";
    EXPECT_EQ(counting.seen("use"), upto(until.batches())) << "the same items in the same order";
    EXPECT_EQ(counting.mismatches(), 0u);
    outcome = *executor.replanned();
  }
  EXPECT_EQ(outcome.reason, "");
  EXPECT_GE(outcome.applied_at_step, 24u);
  EXPECT_GT(outcome.measured_before, 0);
  EXPECT_GT(outcome.predicted_gain(), 0.05);
  EXPECT_THAT(to_text(outcome), HasSubstr("x items 1 -> "));
  const nlohmann::ordered_json json = to_json(outcome);
  EXPECT_EQ(json["changes"][0]["name"], "x");
  EXPECT_EQ(json["measured_step_seconds"]["before"], outcome.measured_before);
}

TEST(Replan, ARunGetsWorkersThatKeepTheOrder) {
  Plan plan = bursty();
  plan.stages[0].cost = Cost::of(0.02);
  plan.stages[1].cost = plan.stages[2].cost = Cost::of(0.0005);
  Counting counting(5000);
  std::mutex mutex;
  std::vector<std::string> started;
  UntilReplanned until("load", sleeping(plan, counting));
  Executor executor(plan, schedule("async"), until.functions(),
                    {.on_worker_start =
                         [&](const std::string& resource) {
                           const std::lock_guard lock(mutex);
                           started.push_back(resource);
                         },
                     .replan = {.after_steps = 10, .host_workers = {{"load", 3}}}});
  until.watch(executor);
  EXPECT_EQ(executor.run(), Outcome::finished);
  ASSERT_NE(until.batches(), UINT64_MAX) << "it never decided";
  EXPECT_EQ(counting.seen("use"), upto(until.batches()));
  const ReplanOutcome outcome = *executor.replanned();
  ASSERT_EQ(outcome.changes.size(), 1u) << outcome.reason;
  EXPECT_EQ(outcome.changes[0].what, "workers");
  EXPECT_GT(outcome.applied_at_step, 0u);
  EXPECT_EQ(started.size(), 3 + outcome.changes[0].to - 1);
  EXPECT_THAT(started, ::testing::IsSupersetOf({"host", "a", "b", "load.1"}));
}

TEST(Replan, ARunThatEndsOrFailsBeforeIsSaidToHave) {
  const Plan plan = bursty();
  Counting few(5), failing(1000);
  Executor ended(plan, schedule("async"), few.functions(plan),
                 {.replan = {.after_steps = 100, .items = 8}});
  EXPECT_EQ(ended.run(), Outcome::finished);
  EXPECT_EQ(to_text(*ended.replanned()), "not re-planned: the run ended before step 100");
  failing.before = [](const std::string& stage, const Context& context) {
    if (stage == "use" && context.firing.step == 40) fail(ErrorCode::io, "planted");
  };
  Executor failed(plan, schedule("async"), failing.functions(plan),
                  {.replan = {.after_steps = 4, .items = 8, .host_workers = {{"load", 4}}}});
  EXPECT_THROW(failed.run(), Error);
  EXPECT_TRUE(failed.replanned());
  Executor without(plan, schedule("async"), few.functions(plan), {});
  EXPECT_FALSE(without.replanned());
}

}  // namespace
}  // namespace headrace
