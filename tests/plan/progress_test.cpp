#include "headrace/progress.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <map>
#include <numeric>
#include <random>

#include "headrace/error.h"
#include "plan/example_plan.h"
#include "plan/graph.h"
#include "plan/random_plan.h"

namespace headrace {
namespace {

// Drives Progress in a random order of events and checks every rule against books of its own.
class Driver {
 public:
  Driver(const Plan& plan, const ScheduleText& schedule, std::uint64_t steps, unsigned seed,
         std::uint64_t stream = UINT64_MAX)
      : plan_(plan),
        graph_(plan),
        edges_(schedule_edges(plan, schedule)),
        progress_(plan, edges_, steps),
        stream_(stream),
        random_(seed),
        held_(plan.resources.size(), false),
        done_(plan.stages.size()),
        started_(plan.stages.size(), 0),
        sent_(plan.channels.size()),
        items_(plan.channels.size(), 0),
        bytes_(plan.channels.size(), 0) {}

  void run() {
    while (step()) {
    }
    RC_ASSERT(progress_.done());
    for (std::size_t device = 0; device < plan_.resources.size(); ++device)
      RC_ASSERT(progress_.device_done(device));
  }

  std::uint64_t fired(std::size_t stage) const { return started_[stage]; }
  const Progress& progress() const { return progress_; }

 private:
  struct Running {
    Firing firing;
    std::vector<std::uint64_t> bytes;
  };

  // One random event; false where nothing can happen.
  bool step() {
    std::vector<std::size_t> startable, finishable;
    for (std::size_t device = 0; device < plan_.resources.size(); ++device)
      if (progress_.startable(device)) startable.push_back(device);
    for (std::size_t i = 0; i < running_.size(); ++i)
      if (progress_.can_finish(running_[i].firing, running_[i].bytes)) finishable.push_back(i);
    const std::size_t choices = startable.size() + finishable.size();
    if (choices == 0) return false;
    const std::size_t choice = random_() % choices;
    if (choice < startable.size())
      start(startable[choice]);
    else
      finish(finishable[choice - startable.size()]);
    return true;
  }

  std::vector<std::size_t> resources_of(const Firing& firing) const {
    const Graph::Node& node = graph_.stages[firing.stage];
    std::vector<std::size_t> resources =
        plan_.stages[firing.stage].replicas == 1 ? node.on : std::vector{node.on[firing.replica]};
    for (std::size_t resource : node.uses)
      if (plan_.resources[resource].kind == ResourceKind::lock) resources.push_back(resource);
    return resources;
  }

  bool step_done(std::size_t stage, std::uint64_t step) const {
    for (std::uint64_t i = 0; i < progress_.firings_in_step(stage, step); ++i)
      if (!done_[stage].contains(step * plan_.stages[stage].per_step + i)) return false;
    return true;
  }

  void start(std::size_t device) {
    const Firing firing = *progress_.startable(device);
    const Graph::Node& node = graph_.stages[firing.stage];
    RC_ASSERT(firing.sequence == started_[firing.stage]);  // in order, each once
    RC_ASSERT(firing.step == firing.sequence / plan_.stages[firing.stage].per_step);
    RC_ASSERT(resources_of(firing).front() == device);
    for (std::size_t resource : resources_of(firing)) {
      RC_ASSERT(!held_[resource]);
      held_[resource] = true;
    }
    for (const Graph::After& after : node.after)
      RC_ASSERT(firing.step < after.lag || step_done(after.stage, firing.step - after.lag));
    for (const Edge& edge : edges_)
      RC_ASSERT(edge.to != firing.stage || firing.step < edge.lag ||
                step_done(edge.from, firing.step - edge.lag));
    const auto taken = progress_.start(firing);
    RC_ASSERT(taken.size() == node.inputs.size());
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const std::size_t channel = node.inputs[i];
      if (plan_.channels[channel].order == Order::sequence) RC_ASSERT(taken[i] == firing.sequence);
      const auto item = sent_[channel].find(taken[i]);
      RC_ASSERT(item != sent_[channel].end());  // sent before, and taken once
      --items_[channel];
      bytes_[channel] -= item->second;
      sent_[channel].erase(item);
    }
    if (node.inputs.empty() && node.after.empty() && firing.sequence >= stream_) {
      progress_.end_of_stream(firing);
      for (std::size_t resource : resources_of(firing)) held_[resource] = false;
      return;
    }
    ++started_[firing.stage];
    Running running{firing, {}};
    for (std::size_t channel : node.outputs) {
      const std::uint64_t bytes = plan_.channels[channel].item_bytes;
      running.bytes.push_back(bytes == 0 ? 0 : random_() % bytes + 1);
    }
    running_.push_back(running);
  }

  void finish(std::size_t index) {
    const Running running = running_[index];
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
    progress_.finish(running.firing, running.bytes);
    RC_ASSERT(done_[running.firing.stage].emplace(running.firing.sequence, true).second);
    for (std::size_t resource : resources_of(running.firing)) held_[resource] = false;
    const auto& outputs = graph_.stages[running.firing.stage].outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::size_t channel = outputs[i];
      if (progress_.items_in(channel) == items_[channel])
        continue;  // dropped: the consumer has ended
      RC_ASSERT(sent_[channel].emplace(running.firing.sequence, running.bytes[i]).second);
      ++items_[channel];
      bytes_[channel] += running.bytes[i];
      RC_ASSERT(items_[channel] <= plan_.channels[channel].items);
      RC_ASSERT(plan_.channels[channel].bytes == 0 ||
                bytes_[channel] <= plan_.channels[channel].bytes);
      RC_ASSERT(progress_.items_in(channel) == items_[channel]);
      RC_ASSERT(progress_.bytes_in(channel) == bytes_[channel]);
    }
    RC_ASSERT(progress_.completed(running.firing.stage) == done_[running.firing.stage].size());
  }

  const Plan& plan_;
  const Graph graph_;
  const std::vector<Edge> edges_;
  Progress progress_;
  const std::uint64_t stream_;
  std::mt19937 random_;
  std::vector<bool> held_;
  std::vector<std::map<std::uint64_t, bool>> done_;
  std::vector<std::uint64_t> started_;
  std::vector<std::map<std::uint64_t, std::uint64_t>> sent_;
  std::vector<std::uint64_t> items_, bytes_;
  std::vector<Running> running_;
};

ScheduleText random_schedule() {
  return {standard_schedules()[static_cast<std::size_t>(pick(0, 2))], {}, {}};
}

TEST(Progress, KeepsEveryRuleAndNeverGetsStuck) {
  EXPECT_TRUE(rc::check([](unsigned seed) {
    const Plan plan = random_plan();
    RC_LOG() << write_plan(plan);
    validate(plan, "random");
    const auto steps = static_cast<std::uint64_t>(pick(1, 7));
    const ScheduleText schedule = random_schedule();
    RC_LOG() << schedule.name;
    Driver driver(plan, schedule, steps, seed);
    driver.run();
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage)
      RC_ASSERT(driver.fired(stage) == steps * plan.stages[stage].per_step);
    RC_ASSERT(driver.progress().steps_completed() == steps);
  }));
}

TEST(Progress, AStreamThatEndsAnywhereIsServedWhole) {
  EXPECT_TRUE(rc::check([](unsigned seed) {
    RandomPlanOptions options;
    options.after = false;
    const Plan plan = random_plan(options);
    RC_LOG() << write_plan(plan);
    const auto batches = static_cast<std::uint64_t>(pick(0, 11));
    const ScheduleText schedule = random_schedule();
    RC_LOG() << schedule.name << ' ' << batches;
    Driver driver(plan, schedule, 0, seed, batches);
    driver.run();
    const std::uint64_t per_step = plan.stages[0].per_step;
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
      RC_ASSERT(driver.fired(stage) == batches);
      std::uint64_t sum = 0;
      for (std::uint64_t step = 0; step <= batches / per_step; ++step)
        sum += driver.progress().firings_in_step(stage, step);
      RC_ASSERT(sum == batches);
    }
    RC_ASSERT(driver.progress().steps_completed() == (batches + per_step - 1) / per_step);
  }));
}

Plan two_replicas(const char* order) {
  return parse_plan(std::string(R"(version: 1
resources: {a: {kind: device}, b: {kind: device}, c: {kind: device}}
stages:
  load: {on: [a, b], replicas: 2, per_step: 2, outputs: [x]}
  train: {on: c, per_step: 2, inputs: [x]}
  sync: {on: c, after: [train]}
channels: {x: {items: 4, order: )") +
                        order + "}}\n",
                    "p.yaml");
}

TEST(Progress, ReplicasTakeTurnsInSequenceAndNotWhenReady) {
  for (const char* order : {"sequence", "ready"}) {
    const Plan plan = two_replicas(order);
    Progress progress(plan, {}, 0);
    const bool ready = std::string(order) == "ready";
    progress.start({0, 0, 0, 0});
    progress.start({0, 1, 1, 0});
    EXPECT_EQ(progress.can_finish({0, 1, 1, 0}, {0}), ready);  // item 1 enters after item 0
    if (!ready) {
      EXPECT_EQ(progress.back_pressure({0, 1, 1, 0}, {0}).waits_for, "x: item 0 to enter first");
      continue;
    }
    progress.finish({0, 1, 1, 0}, {0});
    EXPECT_EQ(progress.startable(1), (Firing{0, 1, 2, 1}));
    EXPECT_EQ(progress.start({1, 0, 0, 0}), std::vector<std::uint64_t>{1});
  }
}

TEST(Progress, ReplicasThatFindTheEndTogetherLoseNothing) {
  const Plan plan = two_replicas("ready");
  Progress progress(plan, {}, 0);
  progress.start({0, 0, 0, 0});
  progress.start({0, 1, 1, 0});
  progress.end_of_stream({0, 0, 0, 0});  // the other replica got the last batch
  EXPECT_FALSE(progress.startable(0));
  EXPECT_TRUE(progress.device_done(0));
  progress.finish({0, 1, 1, 0}, {0});
  EXPECT_EQ(progress.firings_in_step(1, 0), 1u);
  EXPECT_EQ(progress.start({1, 0, 0, 0}), std::vector<std::uint64_t>{1});
  progress.finish({1, 0, 0, 0}, {});
  EXPECT_EQ(progress.startable(2), (Firing{2, 0, 0, 0}));  // sync of the partial step
  progress.start({2, 0, 0, 0});
  progress.finish({2, 0, 0, 0}, {});
  EXPECT_TRUE(progress.done());
  EXPECT_EQ(progress.steps_completed(), 1u);
}

TEST(Progress, AStageThatEndsEarlyEndsItsOtherProducersAndNotItsSiblings) {
  const Plan plan = parse_plan(R"(version: 1
resources: {a: {kind: device}, b: {kind: device}, c: {kind: device}, d: {kind: device}}
stages:
  long: {on: a, outputs: [x]}
  short: {on: b, outputs: [y]}
  join: {on: c, inputs: [x, y]}
  sync: {on: d, after: [join]}
channels: {x: {items: 1}, y: {items: 1}}
)",
                               "p.yaml");
  Progress progress(plan, {}, 0);
  progress.start({0, 0, 0, 0});
  progress.finish({0, 0, 0, 0}, {0});
  progress.start({0, 0, 1, 1});
  EXPECT_FALSE(progress.can_finish({0, 0, 1, 1}, {0}));
  progress.start({1, 0, 0, 0});
  progress.end_of_stream({1, 0, 0, 0});  // nothing at all: join never fires
  EXPECT_TRUE(progress.can_finish({0, 0, 1, 1}, {0}));
  progress.finish({0, 0, 1, 1}, {0});
  EXPECT_TRUE(progress.done());
  EXPECT_EQ(progress.completed(2), 0u);
  EXPECT_EQ(progress.completed(3), 0u);
}

TEST(Progress, AFiringOfSeveralDevicesIsNotStarved) {
  const Plan plan = parse_plan(R"(version: 1
resources: {a: {kind: device}, b: {kind: device}}
stages:
  both: {on: [a, b]}
  left: {on: a}
  right: {on: b}
)",
                               "p.yaml");
  Progress progress(plan, {}, 0);
  progress.start({0, 0, 0, 0});
  progress.finish({0, 0, 0, 0}, {});
  progress.start({1, 0, 0, 0});
  progress.start({2, 0, 0, 0});
  progress.finish({1, 0, 0, 0}, {});
  EXPECT_FALSE(
      progress.startable(0));  // left of step 1 gives way to both of step 1, which waits for b
  EXPECT_EQ(progress.blocked(0).waits_for, "its other devices: b");
  EXPECT_EQ(progress.blocked(0).cause, WaitCause::synchronising);
  progress.finish({2, 0, 0, 0}, {});
  EXPECT_FALSE(progress.startable(1));  // its owner starts it
  EXPECT_EQ(progress.startable(0), (Firing{0, 0, 1, 1}));
}

TEST(Progress, SaysWhatADeviceWaitsFor) {
  const Plan plan = parse_plan(example_plan(true), "p.yaml");
  Progress progress(plan, schedule_edges(plan, {"async", {}, {}}), 0);
  const std::vector<std::uint64_t> item{450'000'000}, none;
  EXPECT_EQ(progress.blocked(2).cause, WaitCause::starved);
  EXPECT_EQ(progress.blocked(2).channel, "features0");
  EXPECT_EQ(progress.blocked(2).waits_for, "features0: 0/4 items, 0 B of 2 GiB");
  progress.start({0, 0, 0, 0});
  EXPECT_EQ(progress.blocked(1).waits_for, "lock autotuner");
  progress.finish({0, 0, 0, 0}, item);
  EXPECT_FALSE(progress.startable(0));  // the lock is due to target1, which is a step behind
  EXPECT_EQ(progress.startable(1), (Firing{1, 0, 0, 0}));
  progress.start({2, 0, 0, 0});
  EXPECT_TRUE(progress.busy(2));
  progress.finish({2, 0, 0, 0}, none);
  EXPECT_EQ(progress.blocked(2).firing.stage, 4u);
  EXPECT_EQ(progress.blocked(2).waits_for, "drafter1 to complete step 0");
  EXPECT_EQ(progress.wait_cause(2), WaitCause::synchronising);
}

// A stage that saves what the step before gave ends one step after it, and makes no stream itself.
TEST(Progress, AStageAfterEarlierStepsEndsWithThem) {
  const Plan plan = parse_plan(R"(version: 1
resources: {h: {kind: host}, a: {kind: device}, b: {kind: device}}
stages:
  load: {on: a, outputs: [x]}
  sync: {on: b, inputs: [x]}
  save: {on: h, after: ["sync@n-1"]}
channels: {x: {items: 1}}
)",
                               "p.yaml");
  Progress progress(plan, {}, 0);
  const auto run = [&](std::size_t stage, std::uint64_t step) {
    const Firing firing{stage, 0, step, step};
    progress.start(firing);
    progress.finish(firing, std::vector<std::uint64_t>(stage == 0 ? 1 : 0, 0));
  };
  for (std::uint64_t step = 0; step < 3; ++step) {
    run(0, step);
    run(1, step);
    run(2, step);
  }
  progress.start({0, 0, 3, 3});
  progress.end_of_stream({0, 0, 3, 3});
  EXPECT_FALSE(progress.done());
  run(2, 3);  // saves the last step
  EXPECT_TRUE(progress.done());
  EXPECT_EQ(progress.steps_completed(), 3u);
  const Graph graph(plan);
  EXPECT_TRUE(graph.is_source(0));
  EXPECT_FALSE(graph.is_source(2));
}

TEST(Progress, RefusesAPlanThatCannotRun) {
  Plan plan = parse_plan(example_plan(false), "p.yaml");
  plan.stages[2].inputs.clear();
  EXPECT_THROW(Progress(plan, {}, 1), Error);
  plan = parse_plan(example_plan(false), "p.yaml");
  plan.stages[0].on.clear();
  EXPECT_THROW(Progress(plan, {}, 1), Error);
}

TEST(Progress, RefusesAnItemThatCanNeverFit) {
  const Plan plan = parse_plan(example_plan(false), "p.yaml");
  Progress progress(plan, {}, 1);
  progress.start({0, 0, 0, 0});
  try {
    progress.can_finish({0, 0, 0, 0}, {3ull << 30});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("channel features0: an item of 3 GiB"), 0u)
        << error.what();
  }
  try {
    progress.can_finish({0, 0, 0, 0}, {500'000'000});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_STREQ(error.what(),
                 "channel features0: an item of 500 MB is larger than its item_bytes of 450 MB; "
                 "raise `item_bytes`");
  }
}

}  // namespace
}  // namespace headrace
