#include "plan/graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "headrace/error.h"

namespace headrace {
namespace {

// Names of one kind of thing (stages, channels, resources) with their indices.
class Names {
 public:
  template <typename Things>
  Names(const char* kind, const Things& things) : kind_(kind) {
    for (std::size_t i = 0; i < things.size(); ++i) index_.emplace(things[i].name, i);
  }

  std::size_t at(const std::string& name, const std::string& user) const {
    if (auto found = index_.find(name); found != index_.end()) return found->second;
    fail(ErrorCode::bad_input, "stage {}: there is no {} named \"{}\"", user, kind_, name);
  }

  std::vector<std::size_t> all(const std::vector<std::string>& names,
                               const std::string& user) const {
    std::vector<std::size_t> indices;
    for (const std::string& name : names) indices.push_back(at(name, user));
    return indices;
  }

 private:
  const char* kind_;
  std::unordered_map<std::string, std::size_t> index_;
};

// Follows unplaced predecessors from `start` until a stage repeats: the names of that cycle, in the
// order in which work would flow.
std::vector<std::string> name_cycle(const Plan& plan,
                                    const std::vector<std::vector<std::size_t>>& before,
                                    const std::vector<bool>& placed, std::size_t start) {
  std::vector<std::size_t> path;
  std::size_t stage = start;
  while (std::find(path.begin(), path.end(), stage) == path.end()) {
    path.push_back(stage);
    stage = *std::find_if(before[stage].begin(), before[stage].end(),
                          [&](std::size_t other) { return !placed[other]; });
  }
  std::vector<std::string> names{plan.stages[stage].name};
  while (path.back() != stage) {
    names.push_back(plan.stages[path.back()].name);
    path.pop_back();
  }
  names.push_back(plan.stages[stage].name);
  return names;
}

}  // namespace

Graph::Graph(const Plan& plan)
    : stages(plan.stages.size()),
      producer(plan.channels.size(), none),
      consumer(plan.channels.size(), none) {
  const Names stage_names("stage", plan.stages), channel_names("channel", plan.channels),
      resource_names("resource", plan.resources);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    Node& node = stages[i];
    node.inputs = channel_names.all(stage.inputs, stage.name);
    node.outputs = channel_names.all(stage.outputs, stage.name);
    node.on = resource_names.all(stage.on, stage.name);
    node.uses = resource_names.all(stage.uses, stage.name);
    for (const auto& after : stage.after)
      node.after.push_back({stage_names.at(after.stage, stage.name), after.lag});
    node.host = std::any_of(node.on.begin(), node.on.end(), [&](std::size_t resource) {
      return plan.resources[resource].kind == ResourceKind::host;
    });
    for (std::size_t channel : node.inputs) consumer[channel] = i;
    for (std::size_t channel : node.outputs) producer[channel] = i;
  }
}

std::vector<std::size_t> Graph::predecessors(std::size_t stage) const {
  std::vector<std::size_t> result;
  for (std::size_t channel : stages[stage].inputs)
    if (producer[channel] != none) result.push_back(producer[channel]);
  for (const After& after : stages[stage].after)
    if (after.lag == 0) result.push_back(after.stage);
  return result;
}

bool Graph::shares_device_or_lock(const Plan& plan, std::size_t stage) const {
  auto users = [&](std::size_t resource) {
    std::ptrdiff_t count = 0;
    for (const Node& node : stages) {
      count += std::count(node.on.begin(), node.on.end(), resource);
      count += std::count(node.uses.begin(), node.uses.end(), resource);
    }
    return count;
  };
  const Node& node = stages[stage];
  for (std::size_t resource : node.on)
    if (users(resource) > 1) return true;
  for (std::size_t resource : node.uses) {
    if (plan.resources[resource].kind != ResourceKind::lock) continue;
    if (users(resource) > 1 || plan.stages[stage].replicas > 1) return true;
  }
  return false;
}

bool Graph::is_source(std::size_t stage) const {
  const Node& node = stages[stage];
  const bool follows = std::any_of(node.after.begin(), node.after.end(),
                                   [&](const After& after) { return after.stage != stage; });
  return node.inputs.empty() && predecessors(stage).empty() && (!follows || !node.outputs.empty());
}

bool Graph::any_replica(const Plan& plan, std::size_t stage) const {
  const Node& node = stages[stage];
  const auto& deciding = node.inputs.empty() ? node.outputs : node.inputs;
  return std::any_of(deciding.begin(), deciding.end(), [&](std::size_t channel) {
    return plan.channels[channel].order == Order::ready;
  });
}

std::vector<std::size_t> topological_order(const Plan& plan, const Graph& graph,
                                           const std::vector<Edge>& edges) {
  const std::size_t count = graph.stages.size();
  std::vector<std::vector<std::size_t>> before(count);
  for (std::size_t stage = 0; stage < count; ++stage) before[stage] = graph.predecessors(stage);
  for (const Edge& edge : edges)
    if (edge.lag == 0) before[edge.to].push_back(edge.from);

  std::vector<std::size_t> order;
  std::vector<bool> placed(count, false);
  while (order.size() < count) {
    const std::size_t size = order.size();
    for (std::size_t stage = 0; stage < count; ++stage) {
      const bool free = std::all_of(before[stage].begin(), before[stage].end(),
                                    [&](std::size_t other) { return placed[other]; });
      if (placed[stage] || !free) continue;
      placed[stage] = true;
      order.push_back(stage);
    }
    if (order.size() > size) continue;
    const auto stuck = std::find(placed.begin(), placed.end(), false) - placed.begin();
    fail(ErrorCode::bad_input, "the stages wait for one another in a cycle: {}",
         fmt::join(name_cycle(plan, before, placed, static_cast<std::size_t>(stuck)), " -> "));
  }
  return order;
}

}  // namespace headrace
