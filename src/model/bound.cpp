#include <algorithm>
#include <limits>
#include <vector>

#include "headrace/error.h"
#include "headrace/simulator.h"
#include "plan/graph.h"

namespace headrace {
namespace {

double work_per_step(const Stage& stage) {
  return stage.cost.mean() * static_cast<double>(stage.per_step);
}

// The work per step of the busiest device or lock. Replicas that take turns share their stage's
// work evenly; where any replica takes the next item, only the work of all of them together is
// given.
double busiest_resource(const Plan& plan, const Graph& graph) {
  std::vector<double> work(plan.resources.size(), 0);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const double share = work_per_step(stage) / static_cast<double>(stage.replicas);
    if (stage.replicas == 1 || !graph.any_replica(plan, i))
      for (std::size_t resource : graph.stages[i].on) work[resource] += share;
    for (std::size_t resource : graph.stages[i].uses)
      if (plan.resources[resource].kind == ResourceKind::lock)
        work[resource] += work_per_step(stage);
  }
  double busiest = work.empty() ? 0 : *std::max_element(work.begin(), work.end());
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    if (plan.stages[i].replicas == 1 || !graph.any_replica(plan, i)) continue;
    std::vector<std::size_t> devices = graph.stages[i].on;
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    double together = work_per_step(plan.stages[i]);
    for (std::size_t device : devices) together += work[device];
    busiest = std::max(busiest, together / static_cast<double>(devices.size()));
  }
  return busiest;
}

// "`to` of step n happens at least `seconds` after `from` of step n - lag."
struct Constraint {
  std::size_t from, to;
  double seconds, lag;
};

// Nodes 2 i and 2 i + 1: the start of stage i's first firing in a step, and the end of its last.
std::vector<Constraint> constraints(const Plan& plan, const Graph& graph) {
  const auto start = [](std::size_t stage) { return 2 * stage; };
  const auto end = [](std::size_t stage) { return 2 * stage + 1; };
  std::vector<Constraint> result;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const std::uint64_t rounds = (stage.per_step + stage.replicas - 1) / stage.replicas;
    result.push_back({start(i), end(i), stage.cost.mean() * static_cast<double>(rounds), 0});
    if (stage.per_step == 1 || stage.replicas == 1)
      result.push_back({end(i), start(i), 0, static_cast<double>(stage.replicas)});
    for (const Graph::After& after : graph.stages[i].after)
      result.push_back({end(after.stage), start(i), 0, static_cast<double>(after.lag)});
  }
  for (std::size_t c = 0; c < plan.channels.size(); ++c) {
    const Channel& channel = plan.channels[c];
    const std::size_t from = graph.producer[c], to = graph.consumer[c];
    // Firing q of `to` needs q + 1 items, so one of a firing that started no earlier than q of
    // `from`.
    result.push_back({start(from), start(to), plan.stages[from].cost.mean(), 0});
    if (channel.order == Order::ready) continue;  // any item may serve any firing
    if (plan.stages[from].per_step > 1) {
      result.push_back({end(from), end(to), plan.stages[to].cost.mean(), 0});
      continue;
    }
    std::uint64_t items = channel.items;
    if (channel.bytes > 0 && channel.item_bytes > 0)
      items = std::min(items, channel.bytes / channel.item_bytes);
    result.push_back({end(from), start(to), 0, 0});
    result.push_back({start(to), end(from), 0, static_cast<double>(items)});
  }
  return result;
}

// Seconds over lag of a cycle on which more than `period` seconds pass for each step of lag, or
// nothing. Longest paths by Bellman and Ford; a node that still rises after as many rounds as there
// are nodes lies behind such a cycle.
double slower_cycle(const std::vector<Constraint>& edges, std::size_t nodes, double period) {
  const double slack = 1e-12 * std::max(period, std::numeric_limits<double>::min());
  std::vector<double> distance(nodes, 0);
  std::vector<const Constraint*> best(nodes, nullptr);
  const Constraint* risen = nullptr;
  for (std::size_t round = 0; round <= nodes; ++round) {
    risen = nullptr;
    for (const Constraint& edge : edges) {
      const double reached = distance[edge.from] + edge.seconds - period * edge.lag;
      if (reached <= distance[edge.to] + slack) continue;
      distance[edge.to] = reached;
      best[edge.to] = risen = &edge;
    }
    if (!risen) return 0;
  }
  std::size_t node = risen->to;
  for (std::size_t i = 0; i < nodes; ++i) node = best[node]->from;
  double seconds = 0, lag = 0;
  std::size_t at = node;
  do {
    seconds += best[at]->seconds;
    lag += best[at]->lag;
    at = best[at]->from;
  } while (at != node);
  return lag > 0 ? seconds / lag : 0;
}

}  // namespace

double bound(const Plan& plan) {
  validate(plan, "plan " + plan.name);
  for (const Stage& stage : plan.stages)
    if (!stage.cost.known())
      fail(ErrorCode::bad_input, "stage {} has no cost; write for example `cost: 1.1 s`",
           stage.name);
  const Graph graph(plan);
  double period = busiest_resource(plan, graph);
  const std::vector<Constraint> edges = constraints(plan, graph);
  // The greatest ratio of a cycle, from below: each cycle found is slower than the one before.
  for (double slower = period; slower > 0;) {
    slower = slower_cycle(edges, 2 * plan.stages.size(), period);
    if (slower <= period) break;
    period = slower;
  }
  return period;
}

}  // namespace headrace
