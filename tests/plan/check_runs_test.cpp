// Plans that get stuck in their first steps are refused, with the smallest capacities that help.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "headrace/error.h"
#include "headrace/schedule.h"
#include "plan/random_plan.h"

namespace headrace {
namespace {

std::string error_of(const Plan& plan, const ScheduleText& schedule) {
  try {
    check_runs(plan, schedule_edges(plan, schedule));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

// Four items a step; `capacity` is the channel's.
Plan window(const std::string& capacity) {
  return parse_plan(R"(version: 1
plan: window
resources: {a: {kind: device}, b: {kind: device}}
stages:
  target: {on: a, per_step: 4, outputs: [features]}
  drafter: {on: b, per_step: 4, inputs: [features]}
channels: {features: {)" +
                        capacity + "}}\n",
                    "window.yaml");
}

TEST(CheckRuns, AWindowThatDoesNotFitIsRefusedWithTheSmallestSizeThatDoes) {
  const ScheduleText lockstep{"lockstep", {}, {}}, async{"async", {}, {}};
  const Plan items = window("items: 3");
  EXPECT_EQ(error_of(items, async), "");
  EXPECT_EQ(
      error_of(items, lockstep)
          .find(
              "plan window cannot run under this schedule; channel features holds 3 items, and a "
              "step needs 4 in it at once: raise `items` to 4. After 0 steps everything waits:\n"),
      0u)
      << error_of(items, lockstep);
  EXPECT_EQ(error_of(window("items: 4"), lockstep), "");

  const Plan bytes = window("items: 8, bytes: 1 GiB, item_bytes: 450 MB");
  EXPECT_EQ(error_of(bytes, async), "");
  EXPECT_NE(error_of(bytes, lockstep)
                .find("channel features holds 1 GiB, and a step needs 4 items of 450 MB in it at "
                      "once: raise `bytes` to 1800 MB."),
            std::string::npos)
      << error_of(bytes, lockstep);
  EXPECT_EQ(error_of(window("items: 8, bytes: 1800 MB, item_bytes: 450 MB"), lockstep), "");
}

// With what the message asks for a plan runs, and with one item less of it, it does not.
TEST(CheckRuns, TheAdviceIsEnoughAndNotTooMuch) {
  int refused = 0;
  EXPECT_TRUE(rc::check([&] {
    Plan plan = random_plan();
    for (Channel& channel : plan.channels) {
      channel.items = static_cast<std::uint64_t>(pick(1, 2));
      channel.bytes = 0;
    }
    RC_LOG() << write_plan(plan);
    const ScheduleText schedule{standard_schedules()[static_cast<std::size_t>(pick(0, 2))], {}, {}};
    const std::string message = error_of(plan, schedule);
    if (message.empty()) return;
    ++refused;
    RC_LOG() << message;
    std::vector<std::pair<std::size_t, std::uint64_t>> raised;
    for (std::size_t i = 0; i < plan.channels.size(); ++i) {
      const std::string start = "channel " + plan.channels[i].name + " holds ";
      const std::size_t at = message.find(start);
      if (at == std::string::npos) continue;
      const std::string raise = "raise `items` to ";
      raised.push_back({i, std::stoull(message.substr(message.find(raise, at) + raise.size()))});
    }
    RC_ASSERT(!raised.empty());
    for (const auto& [channel, items] : raised) plan.channels[channel].items = items;
    RC_ASSERT(error_of(plan, schedule).empty());
    // The last one named was found with all others as they now are.
    --plan.channels[raised.back().first].items;
    RC_ASSERT(!error_of(plan, schedule).empty());
  }));
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace headrace
