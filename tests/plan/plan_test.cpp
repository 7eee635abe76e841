#include "headrace/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <functional>

#include "headrace/error.h"
#include "plan/example_plan.h"
#include "plan/random_plan.h"

namespace headrace {
namespace {

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
    return error.what();
  }
  return "no error";
}

// The example with `from` replaced by `to`, and what reading it says.
std::string error_after(const std::string& from, const std::string& to) {
  std::string yaml = example_plan(true);
  const std::size_t at = yaml.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  yaml.replace(at, from.size(), to);
  return error_of([&] { parse_plan(yaml, "p.yaml"); });
}

TEST(Plan, ReadsTheExample) {
  const Plan plan = parse_plan(example_plan(true), "p.yaml");
  EXPECT_EQ(plan.stages.size(), 5u);
  EXPECT_EQ(plan.stage("sync").on, (std::vector<std::string>{"gpu2", "gpu3"}));
  EXPECT_EQ(plan.stage("sync").after.at(1).stage, "drafter1");
  EXPECT_EQ(plan.stage("target0").cost.mean(), 1.1);
  EXPECT_EQ(plan.channel("features1").bytes, 2ull << 30);
  EXPECT_EQ(plan.resource("autotuner").kind, ResourceKind::lock);
}

TEST(Plan, ReadsBackWhatWasWritten) {
  EXPECT_TRUE(rc::check([] {
    Plan plan = random_plan();
    // What people write into names that nothing looks up.
    static const std::vector<std::string> odd{"",       "a: b # c", "\"", "it's \\\"", "null",
                                              "~",      "[x",       "1",  " x ",       "- a",
                                              "x\n\ty", "\xc3\xa9", "&a", "%"};
    plan.name = *rc::gen::elementOf(odd);
    if (pick(0, 1) == 1)
      plan.name = *rc::gen::container<std::string>(rc::gen::inRange<char>(0x01, 0x7f));
    RC_LOG() << plan.name << "\n";
    if (pick(0, 1) == 1) plan.schedule = {"edges", {}, {{"s0@n", "s0@n+1"}}};
    if (pick(0, 3) == 0) plan.schedule = {"phases", {{*rc::gen::elementOf(odd)}}, {}};
    if (pick(0, 3) == 0) plan.schedule = {"edges", {}, {{*rc::gen::elementOf(odd), "s0@n"}}};
    if (pick(0, 1) == 1) plan.schedule = {"phases", {{"s0"}, {"s0", "s1"}}, {}};
    const std::string text = write_plan(plan);
    RC_LOG() << text;
    const Plan back = parse_plan(text, "p.yaml");
    RC_ASSERT(back == plan);
    RC_ASSERT(plan_hash(back) == plan_hash(plan));
    plan.stages[0].per_step += 1;
    RC_ASSERT(plan_hash(back) != plan_hash(plan));
  }));
}

TEST(Plan, CostsDoNotChangeTheHash) {
  const Plan plan = parse_plan(example_plan(true), "p.yaml");
  Plan other = plan;
  other.stages[0].cost = {};
  other.stages[1].cost = {{0.25, 0.5}, {}};
  EXPECT_EQ(plan_hash(other), plan_hash(plan));
  other.schedule.name = "async";
  EXPECT_NE(plan_hash(other), plan_hash(plan));
}

TEST(Plan, ErrorsNameFileLineAndKey) {
  struct Case {
    std::string from, to, message;
  };
  for (const Case& c : std::vector<Case>{
           {"version: 1", "version: 2", "p.yaml:1: version: is 2"},
           {"kind: lock", "kind: mutex",
            "p.yaml:8: resources.autotuner.kind: unknown kind \"mutex\""},
           {"kind: lock", "kind: link", "p.yaml:8: resources.autotuner.kind: link resources need"},
           {"cost: 1.1 s", "cost: 1.1", "p.yaml:10: stages.target0.cost: \"1.1\""},
           {"cost: 0.2 s", "cost: -0.2 s", "p.yaml:14: stages.sync.cost: \"-0.2 s\""},
           {"cost: 0.2 s", "cost: nan s", "p.yaml:14: stages.sync.cost: \"nan s\""},
           {"cost: 0.2 s", "price: 0.2 s",
            "p.yaml:14: stages.sync.price: unknown key; the known ones are on, "},
           {"cost: 0.2 s", "cost: {quantiles: {1.5: 1 s}}", "p.yaml:14: stages.sync.cost"},
           {"cost: 0.2 s", "cost: {samples: []}", "p.yaml:14: stages.sync.cost: holds no value"},
           {"drafter1]}", "drafter2]}",
            "p.yaml:14: stages.sync.after: there is no stage named \"drafter2\""},
           {"inputs: [features1]", "inputs: [feature1]",
            "p.yaml:13: stages.drafter1.inputs: there is no channel"},
           {"on: gpu0", "on: gpu9",
            "p.yaml:10: stages.target0.on: there is no resource named \"gpu9\""},
           {"on: gpu0", "on: autotuner", "p.yaml:10: stages.target0.on: autotuner is not a device"},
           {"on: gpu0", "on: gpu0, replicas: 2",
            "p.yaml:10: stages.target0.on: lists 1 resources for 2"},
           {"on: gpu0", "on: gpu0, per_step: 2",
            "p.yaml:16: channels.features0: target0 fires 2 times"},
           {"on: gpu0", "on: gpu0, per_step: 0", "p.yaml:10: stages.target0.per_step: 0"},
           {"  gpu1: {", "  gpu0: {", "p.yaml:5: resources.gpu0: is defined twice"},
           {"items: 4", "items: 0", "p.yaml:16: channels.features0.items: 0"},
           {"items: 4", "items: many",
            "p.yaml:16: channels.features0.items: \"many\" is not a count"},
           {"item_bytes: 450 MB", "item_bytes: 3 GiB",
            "p.yaml:16: channels.features0.bytes: 2 GiB cannot hold"},
           {"inputs: [features0]", "inputs: [features0], outputs: [features1]",
            "p.yaml:17: channels.features1: target1 and drafter0 both fill"},
           {"on: gpu0", "on: gpu0, after: [\"sync@n-99999999999999999999\"]",
            "p.yaml:10: stages.target0.after: \"sync@n-99999999999999999999\" is not of the form"},
           {"on: gpu0", "on: gpu0, after: [\"sync@n--1\"]",
            "p.yaml:10: stages.target0.after: \"sync@n--1\" is not of the form"},
           {"on: gpu0", "on: gpu0, after: [\"sync@n-1000001\"]",
            "p.yaml:10: stages.target0.after: a lag of 1000001 steps is above 1000000"},
           {"  gpu0: {", "  Null: {", "p.yaml:4: resources.?: expected one value, found nothing"},
           {", item_bytes: 450 MB", "",
            "p.yaml:16: channels.features0: bytes without item_bytes, and target0 shares"},
           {"inputs: [features0]", "after: [target0]",
            "p.yaml:16: channels.features0: no stage empties it"},
           {"on: gpu0", "on: gpu0, after: [sync]",
            "p.yaml:9: stages: the stages wait for one another in a cycle"},
           {"schedule: lockstep", "schedule: lock-step",
            "p.yaml:18: schedule: unknown schedule \"lock-step\""},
           {"stages:\n", "stages: {\n", "p.yaml:"}})
    EXPECT_EQ(error_after(c.from, c.to).substr(0, c.message.size()), c.message) << c.to;
}

TEST(Plan, NoNameIsAWordForNothing) {
  Plan plan = parse_plan(example_plan(true), "p.yaml");
  plan.resources[0].name = plan.stages[0].on[0] = "Null";
  EXPECT_NE(error_of([&] { validate(plan, "p"); }).find("\"Null\" is no name"), std::string::npos);
}

TEST(Plan, StagesThatNoSourceFeedsAreNamed) {
  const auto plan = [](const std::string& after_first) {
    return parse_plan(R"(version: 1
resources: {a: {kind: device}, b: {kind: device}}
stages:
  load: {on: a, outputs: [x]}
  train: {on: b, inputs: [x]}
  ping: {on: a, after: [)" +
                          after_first +
                          R"(]}
  pong: {on: b, after: [ping]}
channels: {x: {items: 1}}
)",
                      "p.yaml");
  };
  const std::string message = error_of([&] { plan("\"pong@n-1\""); });
  EXPECT_NE(message.find("no source feeds ping, pong"), std::string::npos) << message;
  EXPECT_EQ(error_of([&] { plan("\"pong@n-1\", \"train@n-1\""); }), "no error");
  EXPECT_EQ(error_of([&] { plan("\"ping@n-1\""); }), "no error") << "a source in its own order";
}

TEST(Plan, AChannelThatLeadsNowhereNamesWhoGivesAndWhoWaits) {
  Plan plan = parse_plan(example_plan(true), "p.yaml");
  plan.stages[2].inputs.clear();
  EXPECT_NE(error_of([&] { validate(plan, "p"); }).find("what target0 gives leads nowhere"),
            std::string::npos);
  plan = parse_plan(example_plan(true), "p.yaml");
  plan.stages[0].outputs.clear();
  EXPECT_NE(error_of([&] { validate(plan, "p"); }).find("drafter0 could never start"),
            std::string::npos);
}

TEST(Plan, NamesTheStagesOfACycleInTheOrderOfWork) {
  const std::string message = error_after("on: gpu0", "on: gpu0, after: [sync]");
  EXPECT_NE(message.find("target0 -> drafter0 -> sync -> target0"), std::string::npos) << message;
}

TEST(Plan, NotYamlOrNotAMap) {
  for (const char* text :
       {"", "[]", "a: [", "42", "stages: 3", "version: 1\nstages: [a]", "? [a]\n: b"})
    EXPECT_EQ(error_of([&] { parse_plan(text, "p.yaml"); }).substr(0, 7), "p.yaml:") << text;
  EXPECT_NE(error_of([] { read_plan("/nowhere/plan.yaml"); }).find("/nowhere/plan.yaml"),
            std::string::npos);
}

TEST(Cost, MeanIsTheAreaUnderTheInverseDistribution) {
  EXPECT_TRUE(rc::check([] {
    Cost cost;
    double value = 0;
    for (int i = 0; i <= 8; ++i)
      if (pick(0, 1) == 1 || i == 4) cost.quantiles[i / 8.0] = value += pick(0, 9);
    double sum = 0;
    constexpr int points = 1 << 14;
    for (int i = 0; i < points; ++i) sum += cost.at((i + 0.5) / points);
    RC_ASSERT(std::abs(sum / points - cost.mean()) < 1e-3 * (1 + cost.mean()));
    RC_ASSERT(cost.at(0) <= cost.at(0.3) && cost.at(0.3) <= cost.at(1));
  }));
  const Cost samples{{3, 1, 2}, {}};
  EXPECT_EQ(samples.at(0), 1);
  EXPECT_EQ(samples.at(0.5), 2);
  EXPECT_EQ(samples.at(1), 3);
  EXPECT_EQ(samples.mean(), 2);
}

}  // namespace
}  // namespace headrace
