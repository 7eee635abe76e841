#include "headrace/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "headrace/error.h"
#include "plan/graph.h"
#include "plan/validate.h"

namespace headrace {
namespace {

// The longest path to each stage, where a device stage adds `along_channel` or `along_after` to
// what waits for it and a host stage, being prefetched, adds nothing.
std::vector<std::size_t> longest_paths(const Plan& plan, std::size_t along_channel,
                                       std::size_t along_after) {
  const Graph graph(plan);
  std::vector<std::size_t> distance(plan.stages.size(), 0);
  for (std::size_t stage : topological_order(plan, graph)) {
    auto pass = [&](std::size_t from, std::size_t weight) {
      const std::size_t through = distance[from] + (graph.stages[from].host ? 0 : weight);
      distance[stage] = std::max(distance[stage], through);
    };
    for (std::size_t channel : graph.stages[stage].inputs)
      if (graph.producer[channel] != Graph::none) pass(graph.producer[channel], along_channel);
    for (const Graph::After& after : graph.stages[stage].after)
      if (after.lag == 0) pass(after.stage, along_after);
  }
  return distance;
}

std::size_t device_stage(const Plan& plan, const Graph& graph, const std::string& name,
                         const char* where) {
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    if (plan.stages[i].name != name) continue;
    if (!graph.stages[i].host) return i;
    fail(ErrorCode::bad_input, "{}: {} runs on a host resource and is prefetched; leave it out",
         where, name);
  }
  fail(ErrorCode::bad_input, "{}: there is no stage named \"{}\"", where, name);
}

// A barrier after each group, and from the last group of a step to the first of the next.
std::vector<Edge> barriers(const std::vector<std::vector<std::size_t>>& groups) {
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto& before = groups[i == 0 ? groups.size() - 1 : i - 1];
    for (std::size_t to : groups[i])
      for (std::size_t from : before) edges.push_back({from, to, i == 0 ? 1u : 0u});
  }
  return edges;
}

std::vector<Edge> lockstep_edges(const Plan& plan, const Graph& graph) {
  const std::vector<std::size_t> level = levels(plan);
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t stage = 0; stage < level.size(); ++stage)
    if (!graph.stages[stage].host) groups[level[stage]].push_back(stage);
  std::vector<std::vector<std::size_t>> in_order;
  for (auto& [_, group] : groups) in_order.push_back(std::move(group));
  return barriers(in_order);
}

std::vector<Edge> phase_edges(const Plan& plan, const Graph& graph, const ScheduleText& schedule) {
  std::vector<std::vector<std::size_t>> groups;
  std::vector<bool> named(plan.stages.size(), false);
  for (const auto& phase : schedule.phases) {
    if (phase.empty()) fail(ErrorCode::bad_input, "phases: a phase is empty; remove it");
    groups.emplace_back();
    for (const std::string& name : phase) {
      const std::size_t stage = device_stage(plan, graph, name, "phases");
      if (named[stage]) fail(ErrorCode::bad_input, "phases: stage {} is named twice", name);
      named[stage] = true;
      groups.back().push_back(stage);
    }
  }
  std::vector<std::string> missing;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage)
    if (!named[stage] && !graph.stages[stage].host) missing.push_back(plan.stages[stage].name);
  if (!missing.empty())
    fail(ErrorCode::bad_input, "phases: missing {}: {}; give each stage a phase",
         missing.size() == 1 ? "stage" : "stages", fmt::join(missing, ", "));
  return barriers(groups);
}

// In round r a stage of depth d works on step r - d, and a round starts when the one before has
// ended. An edge to a later step (a consumer more than one round behind) is left out: with it the
// consumer would wait for work that a channel of one item cannot hold.
std::vector<Edge> overlapped_edges(const Plan& plan, const Graph& graph) {
  const std::vector<std::size_t> depth = depths(plan);
  std::vector<Edge> edges;
  for (std::size_t to = 0; to < depth.size(); ++to)
    for (std::size_t from = 0; from < depth.size(); ++from)
      if (!graph.stages[from].host && !graph.stages[to].host && depth[from] + 1 >= depth[to])
        edges.push_back({from, to, depth[from] + 1 - depth[to]});
  return edges;
}

struct StageAtStep {
  std::size_t stage;
  std::int64_t offset;  // of "stage@n+offset"
};

StageAtStep parse_end(const Plan& plan, const Graph& graph, const std::string& text) {
  const std::size_t at = text.find('@');
  const std::string name = text.substr(0, at);
  std::uint64_t distance = 0;
  bool valid = at != std::string::npos && text.compare(at, 2, "@n") == 0, back = false;
  if (valid && text.size() > at + 2) {
    back = text[at + 2] == '-';
    const char *first = text.data() + at + 3, *last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, distance);
    valid = error == std::errc() && end == last && distance <= max_count &&
            (back || text[at + 2] == '+');
  }
  if (!valid)
    fail(ErrorCode::bad_input,
         "edges: \"{}\" is not of the form \"stage@n\" or \"stage@n+1\", up to {} steps away", text,
         max_count);
  const auto offset = static_cast<std::int64_t>(distance);
  return {device_stage(plan, graph, name, "edges"), back ? -offset : offset};
}

std::vector<Edge> given_edges(const Plan& plan, const Graph& graph, const ScheduleText& schedule) {
  std::vector<Edge> edges;
  for (const EdgeText& text : schedule.edges) {
    const StageAtStep from = parse_end(plan, graph, text.from),
                      to = parse_end(plan, graph, text.to);
    if (to.offset < from.offset)
      fail(ErrorCode::bad_input,
           "edges: {} would wait for the later step {}; swap them or change the offsets", text.to,
           text.from);
    edges.push_back({from.stage, to.stage, static_cast<std::uint64_t>(to.offset - from.offset)});
  }
  return edges;
}

}  // namespace

std::vector<std::size_t> levels(const Plan& plan) {
  return longest_paths(plan, 1, 1);
}

std::vector<std::size_t> depths(const Plan& plan) {
  return longest_paths(plan, 1, 0);
}

std::vector<Edge> schedule_edges(const Plan& plan, const ScheduleText& schedule) {
  const Graph graph(plan);
  std::vector<Edge> edges;
  if (schedule.name == "lockstep") {
    edges = lockstep_edges(plan, graph);
  } else if (schedule.name == "phases") {
    edges = phase_edges(plan, graph, schedule);
  } else if (schedule.name == "overlapped") {
    edges = overlapped_edges(plan, graph);
  } else if (schedule.name == "edges") {
    edges = given_edges(plan, graph, schedule);
  } else if (schedule.name != "async") {
    fail(ErrorCode::bad_input, "unknown schedule \"{}\"; one of {}, phases, edges", schedule.name,
         fmt::join(standard_schedules(), ", "));
  }
  topological_order(plan, graph, edges);  // refuses a cycle
  return edges;
}

const std::vector<std::string>& standard_schedules() {
  static const std::vector<std::string> names{"lockstep", "overlapped", "async"};
  return names;
}

}  // namespace headrace
