// Whether a plan gets through its first steps under a schedule, and if not, what would help.
#include <fmt/ranges.h>

#include <algorithm>

#include "headrace/error.h"
#include "headrace/progress.h"
#include "headrace/quantity.h"
#include "headrace/schedule.h"
#include "plan/graph.h"
#include "plan/validate.h"
#include "plan/wait_graph.h"

namespace headrace {
namespace {

// A run of a few steps in which all work takes no time and every item is as large as declared.
class Rehearsal {
 public:
  // A firing only ever waits for work of its own or an earlier step, and in the same way in each
  // step. So what gets stuck is stuck once all stages work at once, each at most a step behind the
  // one before it.
  Rehearsal(const Plan& plan, const std::vector<Edge>& edges)
      : plan_(plan), progress_(plan, edges, plan.stages.size() + 2) {
    for (bool moved = true; moved;) {
      moved = start_all();
      moved |= finish_all();
    }
  }

  bool gets_through() const { return progress_.done(); }
  std::uint64_t steps() const { return progress_.steps_completed(); }

  std::string wait_for_graph() const {
    std::string graph;
    for (const Held& one : held_)
      graph += "\n  " + send_words(plan_, progress_, one.firing, one.bytes);
    for (std::size_t resource = 0; resource < plan_.resources.size(); ++resource)
      if (!progress_.busy(resource) && !progress_.device_done(resource))
        graph += fmt::format("\n  {}: {}", plan_.resources[resource].name,
                             wait_words(plan_, progress_, resource));
    return graph;
  }

 private:
  struct Held {
    Firing firing;
    std::vector<std::uint64_t> bytes;
  };

  bool start_all() {
    const std::size_t before = held_.size();
    for (std::size_t resource = 0; resource < plan_.resources.size(); ++resource)
      while (const std::optional<Firing> firing = progress_.startable(resource)) {
        progress_.start(*firing);
        held_.push_back({*firing, {}});
        for (const std::string& output : plan_.stages[firing->stage].outputs)
          held_.back().bytes.push_back(plan_.channel(output).item_bytes);
      }
    return held_.size() > before;
  }

  bool finish_all() {
    return std::erase_if(held_, [&](const Held& one) {
             if (!progress_.can_finish(one.firing, one.bytes)) return false;
             progress_.finish(one.firing, one.bytes);
             return true;
           }) > 0;
  }

  const Plan& plan_;
  Progress progress_;
  std::vector<Held> held_;
};

// The least count in (low, high] with which the plan runs; it does with `high`.
template <typename With>
std::uint64_t least(std::uint64_t low, std::uint64_t high, const With& runs_with) {
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (runs_with(middle) ? high : low) = middle;
  }
  return high;
}

// What to raise, channel by channel, while those that come later in the plan have no bounds: with
// all of it done the plan runs. Empty where no capacity helps.
std::vector<std::string> capacities_to_raise(const Plan& plan, const std::vector<Edge>& edges) {
  Plan wide = plan;
  for (Channel& channel : wide.channels)
    channel = {.name = channel.name,
               .items = max_count,
               .item_bytes = channel.item_bytes,
               .order = channel.order};
  const auto runs = [&] { return Rehearsal(wide, edges).gets_through(); };
  std::vector<std::string> advice;
  if (!runs()) return advice;
  for (std::size_t i = 0; i < plan.channels.size(); ++i) {
    const Channel& given = plan.channels[i];
    Channel& channel = wide.channels[i];
    const auto runs_with_items = [&](std::uint64_t items) {
      channel.items = items;
      return runs();
    };
    if (!runs_with_items(given.items)) {
      channel.items = least(given.items, max_count, runs_with_items);
      advice.push_back(
          fmt::format("channel {} holds {} items, and a step needs {} in it at once: "
                      "raise `items` to {}",
                      given.name, given.items, channel.items, channel.items));
    }
    const auto runs_with_bytes = [&](std::uint64_t items) {
      channel.bytes = items * given.item_bytes;
      return runs();
    };
    channel.bytes = given.bytes;
    if (given.bytes == 0 || given.item_bytes == 0 || runs()) continue;
    const std::uint64_t items =
        least(given.bytes / given.item_bytes, channel.items, runs_with_bytes);
    channel.bytes = items * given.item_bytes;
    advice.push_back(
        fmt::format("channel {} holds {}, and a step needs {} items of {} in it at "
                    "once: raise `bytes` to {}",
                    given.name, format_bytes(given.bytes), items, format_bytes(given.item_bytes),
                    format_bytes(channel.bytes)));
  }
  return advice;
}

}  // namespace

void check_runs(const Plan& plan, const std::vector<Edge>& edges) {
  const Rehearsal rehearsal(plan, edges);
  if (rehearsal.gets_through()) return;
  std::vector<std::string> advice = capacities_to_raise(plan, edges);
  if (advice.empty()) advice = {"no capacity helps, so change the edges"};
  fail(ErrorCode::bad_input,
       "plan {} cannot run under this schedule; {}. After {} steps everything waits:{}", plan.name,
       fmt::join(advice, "; "), rehearsal.steps(), rehearsal.wait_for_graph());
}

}  // namespace headrace
