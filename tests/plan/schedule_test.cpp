#include "headrace/schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "headrace/error.h"
#include "plan/example_plan.h"
#include "plan/random_plan.h"

namespace headrace {
namespace {

std::string error_of(const Plan& plan, const ScheduleText& schedule) {
  try {
    schedule_edges(plan, schedule);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Schedule, LevelsAndDepthsOfTheExample) {
  const Plan plan = parse_plan(example_plan(true), "p.yaml");
  EXPECT_EQ(levels(plan), (std::vector<std::size_t>{0, 0, 1, 1, 2}));
  EXPECT_EQ(depths(plan), (std::vector<std::size_t>{0, 0, 1, 1, 1}));
}

TEST(Schedule, HostStagesAddNoLevelAndGetNoEdges) {
  const Plan plan = parse_plan(R"(version: 1
resources: {h: {kind: host}, a: {kind: device}, b: {kind: device}}
stages:
  read: {on: h, outputs: [x]}
  first: {on: a, inputs: [x], outputs: [y]}
  pack: {on: h, inputs: [y], outputs: [z]}
  second: {on: b, inputs: [z]}
channels: {x: {items: 1}, y: {items: 1}, z: {items: 1}}
)",
                               "p.yaml");
  EXPECT_EQ(levels(plan), (std::vector<std::size_t>{0, 0, 1, 1}));
  const std::vector<Edge> expected{{3, 1, 1}, {1, 3, 0}};
  EXPECT_EQ(schedule_edges(plan, {"lockstep", {}, {}}), expected);
  EXPECT_EQ(error_of(plan, {"phases", {{"first"}, {"second"}}, {}}), "no error");
  EXPECT_NE(error_of(plan, {"phases", {{"read"}, {"first"}, {"second"}}, {}}).find("read"),
            std::string::npos);
}

TEST(Schedule, LockstepIsPhasesByLevel) {
  EXPECT_TRUE(rc::check([] {
    const Plan plan = random_plan();
    const auto level = levels(plan);
    ScheduleText phases{"phases", {}, {}};
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
      if (plan.resource(plan.stages[i].on[0]).kind == ResourceKind::host) continue;
      phases.phases.resize(std::max(phases.phases.size(), level[i] + 1));
      phases.phases[level[i]].push_back(plan.stages[i].name);
    }
    RC_ASSERT(schedule_edges(plan, {"lockstep", {}, {}}) == schedule_edges(plan, phases));
    RC_ASSERT(schedule_edges(plan, {"async", {}, {}}).empty());
  }));
}

TEST(Schedule, OverlappedIsADoubleBuffer) {
  const Plan plan = parse_plan(example_plan(true), "p.yaml");
  const auto edges = schedule_edges(plan, {"overlapped", {}, {}});
  const auto has = [&](const Edge& edge) {
    return std::count(edges.begin(), edges.end(), edge) == 1;
  };
  EXPECT_TRUE(has({4, 0, 2}));  // target of step n waits for sync of step n - 2: one step ahead
  EXPECT_TRUE(has({0, 4, 0}));
  EXPECT_TRUE(has({4, 2, 1}));  // and the drafters join with sync once a round
}

TEST(Schedule, RefusesWithTheNames) {
  const Plan plan = parse_plan(example_plan(true), "p.yaml");
  const auto phases = [&](std::vector<std::vector<std::string>> p) {
    return error_of(plan, {"phases", std::move(p), {}});
  };
  const auto edge = [&](const char* from, const char* to) {
    return error_of(plan, {"edges", {}, {{from, to}}});
  };
  EXPECT_EQ(error_of(plan, {"serial", {}, {}}).find("unknown schedule \"serial\""), 0u);
  EXPECT_EQ(phases({{"target0"}, {"target1", "drafter0"}, {"sync"}}),
            "phases: missing stage: drafter1; give each stage a phase");
  EXPECT_NE(phases({{"target0", "target0"}}).find("target0 is named twice"), std::string::npos);
  EXPECT_NE(phases({{"encoder"}}).find("no stage named \"encoder\""), std::string::npos);
  EXPECT_NE(phases({{"drafter0", "drafter1"}, {"target0", "target1"}, {"sync"}}).find("cycle"),
            std::string::npos);
  EXPECT_NE(edge("target0@n+1", "sync@n").find("later step"), std::string::npos);
  EXPECT_NE(edge("sync@n", "target0@n").find("cycle"), std::string::npos);
  for (const char* text :
       {"sync", "sync@", "sync@m", "sync@n+", "sync@n1", "sync@n+1x", "sync@n++1", "sync@n+-5",
        "sync@n+1000001", "sync@n-99999999999999999999"})
    EXPECT_NE(edge(text, "target0@n+9").find("is not of the form"), std::string::npos) << text;
  EXPECT_EQ(edge("sync@n-1", "target0@n"), "no error");
  Plan hosted = plan;
  hosted.resources[0].kind = ResourceKind::host;
  EXPECT_NE(
      error_of(hosted, {"edges", {}, {{"sync@n", "target0@n+1"}}}).find("target0 runs on a host"),
      std::string::npos);
  EXPECT_EQ(schedule_edges(plan, {"edges", {}, {{"sync@n", "target0@n+2"}}}),
            (std::vector<Edge>{{4, 0, 2}}));
}

}  // namespace
}  // namespace headrace
