#include "headrace/simulator.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>

#include "headrace/error.h"
#include "headrace/schedule.h"
#include "plan/example_plan.h"
#include "plan/random_plan.h"

namespace headrace {
namespace {

const ScheduleText published_phases{
    "phases", {{"target0"}, {"target1", "drafter0"}, {"drafter1"}, {"sync"}}, {}};

ScheduleText named(const std::string& name) {
  return {name, {}, {}};
}

ScheduleText random_schedule() {
  return named(standard_schedules()[static_cast<std::size_t>(pick(0, 2))]);
}

// Stages in a row, each on its own device, with constant costs.
Plan random_chain() {
  Plan plan;
  const int stages = pick(2, 5);
  for (int i = 0; i < stages; ++i) {
    const std::string n = std::to_string(i);
    plan.resources.push_back({"d" + n, ResourceKind::device, 1});
    Stage stage;
    stage.name = "s" + n;
    stage.on = {"d" + n};
    stage.cost = Cost::of(pick(1, 9) * 0.125);
    if (i > 0) stage.inputs = {"c" + std::to_string(i - 1)};
    if (i + 1 < stages) stage.outputs = {"c" + n};
    plan.stages.push_back(stage);
    Channel channel;
    channel.name = "c" + n;
    channel.items = static_cast<std::uint64_t>(pick(1, 4));
    if (i + 1 < stages) plan.channels.push_back(channel);
  }
  return plan;
}

TEST(Simulator, PublishedFigures) {
  const Plan locked = parse_plan(example_plan(true), "p.yaml");
  const Plan parallel = parse_plan(example_plan(false), "p.yaml");
  const auto step = [](const Plan& plan, const ScheduleText& schedule) {
    return simulate(plan, schedule).step_seconds;
  };
  EXPECT_NEAR(step(locked, named("lockstep")), 3.0, 1e-9);
  EXPECT_NEAR(step(locked, published_phases), 3.0, 1e-9);
  EXPECT_NEAR(step(locked, named("overlapped")), 2.2, 1e-9);
  EXPECT_NEAR(step(locked, named("async")), 2.2, 1e-9);
  EXPECT_NEAR(step(parallel, named("lockstep")), 1.9, 1e-9);
  EXPECT_NEAR(step(parallel, published_phases), 3.0, 1e-9);
  EXPECT_NEAR(step(parallel, named("overlapped")), 1.1, 1e-9);
  EXPECT_NEAR(step(parallel, named("async")), 1.1, 1e-9);
  EXPECT_NEAR(bound(locked), 2.2, 1e-12);
  EXPECT_NEAR(bound(parallel), 1.1, 1e-12);
  EXPECT_EQ(simulate(locked, named("async")).critical_path,
            (std::vector<std::string>{"target0", "target1"}));
  EXPECT_EQ(simulate(locked, published_phases).critical_path,
            (std::vector<std::string>{"target0", "target1", "drafter1", "sync"}));
}

TEST(Simulator, NothingBeatsTheBound) {
  EXPECT_TRUE(rc::check([] {
    Plan plan = random_plan();
    for (Stage& stage : plan.stages) stage.cost = Cost::of(stage.cost.mean());
    RC_LOG() << write_plan(plan);
    SimulateOptions options;
    options.steps = 60;
    const Simulation simulation = simulate(plan, random_schedule(), options);
    // A cycle of lag k says nothing about the first k steps; the lags of a cycle here add up to 12
    // at most.
    RC_ASSERT(simulation.total_seconds >= simulation.bound_seconds * 48 - 1e-9);
  }));
}

TEST(Simulator, AsynchronousChainsRunAtTheirSlowestStage) {
  EXPECT_TRUE(rc::check([] {
    const Plan plan = random_chain();
    RC_LOG() << write_plan(plan);
    double slowest = 0;
    for (const Stage& stage : plan.stages) slowest = std::max(slowest, stage.cost.mean());
    const Simulation async = simulate(plan, named("async"));
    RC_ASSERT(std::abs(async.bound_seconds - slowest) < 1e-9);
    RC_ASSERT(std::abs(async.step_seconds - slowest) < 1e-9);
    RC_ASSERT(simulate(plan, named("overlapped")).step_seconds >= slowest - 1e-9);
    double sum = 0;
    for (const Stage& stage : plan.stages) sum += stage.cost.mean();
    RC_ASSERT(std::abs(simulate(plan, named("lockstep")).step_seconds - sum) < 1e-9);
  }));
}

TEST(Simulator, MoreCapacityNeverSlowsAChain) {
  EXPECT_TRUE(rc::check([] {
    Plan plan = random_chain();
    for (Stage& stage : plan.stages) stage.cost = {{0.25, 0.5, pick(1, 9) * 0.25}, {}};
    const double before = simulate(plan, named("async")).total_seconds;
    const auto wider =
        static_cast<std::size_t>(pick(0, static_cast<int>(plan.channels.size()) - 1));
    plan.channels[wider].items += 1;
    RC_ASSERT(simulate(plan, named("async")).total_seconds <= before + 1e-9);
  }));
}

// On each device, spans and waits follow one another without a gap or an overlap, from 0 to its
// last span.
TEST(Simulator, SpansAndWaitsTileEachDevice) {
  EXPECT_TRUE(rc::check([] {
    const Plan plan = random_plan();
    RC_LOG() << write_plan(plan);
    SimulateOptions options;
    options.steps = 8;
    const Simulation simulation = simulate(plan, random_schedule(), options);
    std::map<std::size_t, std::vector<std::pair<double, double>>> intervals;
    for (const SimulatedSpan& span : simulation.spans)
      intervals[span.resource].emplace_back(span.start, span.end);
    for (const SimulatedWait& wait : simulation.waits) {
      RC_ASSERT(wait.end > wait.start);
      intervals[wait.resource].emplace_back(wait.start, wait.end);
    }
    for (auto& [device, list] : intervals) {
      std::sort(list.begin(), list.end());
      double at = 0;
      for (const auto& [start, end] : list) {
        RC_ASSERT(std::abs(start - at) < 1e-9);
        at = end;
      }
    }
  }));
}

Plan shared_plan() {
  return parse_plan(R"(version: 1
resources: {a: {kind: device}, b: {kind: device}, memory: {kind: shared, slowdown: 1.25}}
stages:
  short: {on: a, cost: 1 s, uses: [memory]}
  long: {on: b, cost: 3 s, uses: [memory]}
schedule: lockstep
)",
                    "p.yaml");
}

TEST(Simulator, StagesSlowOneAnotherOnlyWhileBothUseAResource) {
  SimulateOptions options;
  options.steps = 1;
  const Simulation both = simulate(shared_plan(), named("lockstep"), options);
  EXPECT_DOUBLE_EQ(both.spans[0].end, 1.25);       // 1 s of work at 1/1.25
  EXPECT_DOUBLE_EQ(both.total_seconds, 1.25 + 2);  // the long one had done 1 of 3 s
  Plan alone = shared_plan();
  alone.stages[0].uses.clear();
  EXPECT_DOUBLE_EQ(simulate(alone, named("lockstep"), options).total_seconds, 3);
}

TEST(Simulator, DistributionsAreDrawnAlikeUnderEverySchedule) {
  Plan plan = parse_plan(example_plan(true), "p.yaml");
  plan.stages[0].cost = {{}, {{0.0, 0.5}, {0.5, 1.0}, {1.0, 2.0}}};
  SimulateOptions options;
  options.steps = 400;
  std::map<std::string, std::vector<double>> drawn;
  for (const std::string& name : standard_schedules()) {
    std::vector<double> costs(options.steps);
    for (const SimulatedSpan& span : simulate(plan, named(name), options).spans)
      if (span.stage == 0) costs[span.sequence] = span.end - span.start;
    drawn[name] = costs;
    double mean = 0;
    for (double cost : costs) mean += cost / static_cast<double>(options.steps);
    EXPECT_NEAR(mean, plan.stages[0].cost.mean(), 0.08);
  }
  for (std::size_t i = 0; i < options.steps; ++i) {
    EXPECT_NEAR(drawn["lockstep"][i], drawn["async"][i], 1e-9);
    EXPECT_NEAR(drawn["lockstep"][i], drawn["overlapped"][i], 1e-9);
  }
  options.seed = 2;
  EXPECT_NE(simulate(plan, named("lockstep"), options).spans[0].end, drawn["lockstep"][0]);
}

TEST(Simulator, NamesTheWaitsOfAPlanThatIsStuck) {
  const Plan plan = parse_plan(R"(version: 1
resources: {a: {kind: device}, b: {kind: device}}
stages:
  load: {on: a, per_step: 2, cost: 1 s, outputs: [x]}
  train: {on: b, per_step: 2, cost: 1 s, inputs: [x]}
channels: {x: {items: 1}}
)",
                               "p.yaml");
  try {
    simulate(plan, named("lockstep"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::hang);
    EXPECT_STREQ(error.what(),
                 "a (load.0, step 0) waits for x: 1/1 items; "
                 "b (train.0, step 0) waits for load to complete step 0");
  }
  EXPECT_NEAR(simulate(plan, named("async")).step_seconds, 2, 1e-9);
}

TEST(Simulator, AStageWithoutACostIsNamed) {
  Plan plan = parse_plan(example_plan(true), "p.yaml");
  plan.stages[2].cost = {};
  try {
    simulate(plan, named("async"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("drafter0"), std::string::npos);
  }
}

TEST(Simulator, RefusesAPlanThatCannotRunAndNoSteps) {
  Plan plan = parse_plan(example_plan(true), "p.yaml");
  EXPECT_THROW(simulate(plan, named("async"), {.steps = 0}), Error);
  plan.stages[0].outputs = {"nowhere"};
  EXPECT_THROW(simulate(plan, named("async")), Error);
  EXPECT_THROW(bound(plan), Error);
}

// What devices alone do not show: a step that waits for the one before through two devices.
TEST(Bound, LongestCycle) {
  const std::string plan = R"(version: 1
resources: {a: {kind: device}, b: {kind: device}, c: {kind: device}}
stages:
  one: {on: a, cost: 1 s, outputs: [x], after: ["three@n-LAG"]}
  two: {on: b, cost: 2 s, inputs: [x], outputs: [y]}
  three: {on: c, cost: 0.5 s, inputs: [y]}
channels: {x: {items: 9}, y: {items: 9}}
)";
  for (int lag = 1; lag <= 3; ++lag) {
    std::string yaml = plan;
    yaml.replace(yaml.find("LAG"), 3, std::to_string(lag));
    const Plan parsed = parse_plan(yaml, "p.yaml");
    const double expected = std::max(3.5 / lag, 2.0);
    EXPECT_NEAR(bound(parsed), expected, 1e-9);
    EXPECT_NEAR(simulate(parsed, named("async"), {200, 1, false}).step_seconds, expected, 0.02);
  }
}

}  // namespace
}  // namespace headrace
