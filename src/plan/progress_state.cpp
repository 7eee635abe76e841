#include "plan/progress_state.h"

#include <algorithm>

#include "plan/validate.h"

namespace headrace {
Progress::State::State(const Plan& plan_, const std::vector<Edge>& edges, std::uint64_t steps)
    : plan(validated(plan_)),
      graph(plan),
      stages(plan.stages.size()),
      channels(plan.channels.size()),
      held(plan.resources.size(), false),
      candidates(plan.resources.size()),
      lock_users(plan.resources.size()) {
  const std::vector<std::size_t> level = levels(plan);
  const bool all_hosts = std::all_of(graph.stages.begin(), graph.stages.end(),
                                     [](const Graph::Node& node) { return node.host; });
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Stage& from = plan.stages[i];
    const Graph::Node& node = graph.stages[i];
    StageState& stage = stages[i];
    stage.level = level[i];
    stage.counts = !node.host || all_hosts;
    stage.per_step = stage.next_step_end = from.per_step;
    if (steps > 0) stage.end = steps * from.per_step;
    stage.any_replica = graph.any_replica(plan, i);
    stage.reserves = graph.shares_device_or_lock(plan, i);
    for (const Graph::After& after : node.after)
      stage.waits_for.push_back({after.stage, i, after.lag});
    for (const Edge& edge : edges)
      if (edge.to == i) stage.waits_for.push_back(edge);
    stage.running.assign(from.replicas, unlimited);
    for (std::uint64_t replica = 0; replica < from.replicas; ++replica) {
      stage.holds.push_back(from.replicas == 1 ? node.on : std::vector{node.on.at(replica)});
      for (std::size_t resource : stage.holds.back()) candidates[resource].push_back({i, replica});
    }
    for (std::size_t resource : node.uses) {
      if (plan.resources[resource].kind != ResourceKind::lock) continue;
      stage.locks.push_back(resource);
      for (std::uint64_t replica = 0; replica < from.replicas; ++replica)
        lock_users[resource].push_back({i, replica});
    }
  }
}

std::uint64_t Progress::State::next_of(const StageState& stage, std::uint64_t replica) const {
  if (stage.any_replica || stage.running.size() == 1) return stage.started;
  const std::uint64_t replicas = stage.running.size();
  return stage.started + (replica + replicas - stage.started % replicas) % replicas;
}

bool Progress::State::replica_ready(const Candidate& candidate) const {
  const StageState& stage = stages[candidate.stage];
  return stage.started < stage.end && stage.running[candidate.replica] == unlimited &&
         next_of(stage, candidate.replica) == stage.started;
}

bool Progress::State::edge_met(const Edge& edge, std::uint64_t step) const {
  if (step < edge.lag) return true;
  const StageState& from = stages[edge.from];
  return from.completed >= std::min((step - edge.lag + 1) * from.per_step, from.end);
}

bool Progress::State::closed(std::size_t channel) const {
  const StageState& consumer = stages[graph.consumer[channel]];
  return consumer.started >= consumer.end;
}

bool Progress::State::out_of_turn(const Firing& firing, std::size_t channel) const {
  const StageState& stage = stages[firing.stage];
  return plan.channels[channel].order == Order::sequence &&
         stage.running[firing.replica] != stage.completed;
}

bool Progress::State::full(std::size_t channel, std::uint64_t bytes) const {
  const Channel& bound = plan.channels[channel];
  const ChannelState& state = channels[channel];
  return !closed(channel) && (state.items.size() >= bound.items ||
                              (bound.bytes > 0 && state.bytes + bytes > bound.bytes));
}

bool Progress::State::has_room(std::size_t channel) const {
  const Channel& bound = plan.channels[channel];
  const ChannelState& state = channels[channel];
  if (closed(channel)) return true;
  const std::uint64_t bytes = state.bytes + (state.promised + 1) * bound.item_bytes;
  return state.items.size() + state.promised < bound.items &&
         (bound.bytes == 0 || bytes <= bound.bytes);
}

bool Progress::State::ready_but_for_devices(std::size_t index, Obstacle* obstacle) const {
  const StageState& stage = stages[index];
  const Graph::Node& node = graph.stages[index];
  auto refuse = [&](Obstacle reason) {
    if (obstacle) *obstacle = reason;
    return false;
  };
  for (std::size_t channel : node.inputs)
    if (channels[channel].items.empty()) return refuse({WaitCause::starved, channel});
  for (const Edge& edge : stage.waits_for)
    if (!edge_met(edge, stage.next_step)) {
      const bool host = graph.stages[edge.from].host;
      return refuse({host ? WaitCause::host : WaitCause::synchronising, Graph::none, &edge});
    }
  if (stage.reserves)
    for (std::size_t channel : node.outputs)
      if (!has_room(channel)) return refuse({WaitCause::back_pressured, channel});
  for (std::size_t lock : stage.locks)
    if (held[lock]) return refuse({WaitCause::synchronising, Graph::none, nullptr, lock});
  return true;
}

std::optional<Progress::State::Candidate> Progress::State::first_ready(std::size_t resource) const {
  std::optional<Candidate> first;
  for (const Candidate& candidate : candidates[resource]) {
    if (!replica_ready(candidate)) continue;
    if (first && key(first->stage) <= key(candidate.stage)) continue;
    if (ready_but_for_devices(candidate.stage)) first = candidate;
  }
  return first;
}

bool Progress::State::devices_free(const Candidate& candidate) const {
  const auto& devices = stages[candidate.stage].holds[candidate.replica];
  return std::none_of(devices.begin(), devices.end(),
                      [&](std::size_t device) { return held[device]; });
}

bool Progress::State::lock_is_due_elsewhere(const Candidate& candidate) const {
  for (std::size_t lock : stages[candidate.stage].locks)
    for (const Candidate& other : lock_users[lock]) {
      if (key(other.stage) >= key(candidate.stage) || !replica_ready(other)) continue;
      if (!devices_free(other) || !ready_but_for_devices(other.stage)) continue;
      const auto first = first_ready(stages[other.stage].holds[other.replica].front());
      if (first && first->stage == other.stage) return true;
    }
  return false;
}

std::optional<Progress::State::Candidate> Progress::State::first_pending(
    std::size_t resource) const {
  std::optional<Candidate> first;
  auto order = [&](const Candidate& candidate) {
    const StageState& stage = stages[candidate.stage];
    const std::uint64_t firing = next_of(stage, candidate.replica);
    return std::tuple(firing / stage.per_step, stage.level, candidate.stage, firing);
  };
  for (const Candidate& candidate : candidates[resource]) {
    const StageState& stage = stages[candidate.stage];
    if (next_of(stage, candidate.replica) >= stage.end) continue;
    if (!first || order(candidate) < order(*first)) first = candidate;
  }
  return first;
}

void Progress::State::release(const Firing& firing) {
  StageState& stage = stages[firing.stage];
  stage.running[firing.replica] = unlimited;
  for (std::size_t resource : stage.holds[firing.replica]) held[resource] = false;
  for (std::size_t resource : stage.locks) held[resource] = false;
  if (stage.reserves)
    for (std::size_t channel : graph.stages[firing.stage].outputs) --channels[channel].promised;
}

void Progress::State::update_completed(StageState& stage) {
  stage.completed =
      std::min(stage.started, *std::min_element(stage.running.begin(), stage.running.end()));
}

// A stage without inputs runs as long as any stage that it comes after in its own step has firings
// there. Where it comes only after earlier steps of others, it runs until it has followed the last
// step of each: `lag` steps longer.
std::uint64_t Progress::State::following_end(std::size_t index) const {
  const std::vector<Graph::After>& all = graph.stages[index].after;
  const bool in_step =
      std::any_of(all.begin(), all.end(), [](const Graph::After& one) { return one.lag == 0; });
  std::uint64_t last_step = 0;
  bool follows = false;
  for (const Graph::After& after : all) {
    if (after.stage == index || (in_step && after.lag > 0)) continue;
    const StageState& from = stages[after.stage];
    if (from.end == unlimited) return unlimited;
    follows = true;
    last_step = std::max(last_step, (from.end + from.per_step - 1) / from.per_step + after.lag);
  }
  return follows ? last_step * stages[index].per_step : unlimited;
}

// Carries the known ends along the plan until nothing changes. A firing needs an item of each
// input, so a stage ends with the first of its producers; one without inputs follows the stages
// that it comes after (see following_end); and one whose every consumer has ended is not needed any
// more.
void Progress::State::settle_ends() {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const Graph::Node& node = graph.stages[i];
      std::uint64_t end = stages[i].end;
      for (std::size_t channel : node.inputs)
        end = std::min(end, stages[graph.producer[channel]].end);
      if (node.inputs.empty()) end = std::min(end, following_end(i));
      if (!node.outputs.empty()) {
        std::uint64_t needed = stages[i].started;
        for (std::size_t channel : node.outputs)
          needed = std::max(needed, stages[graph.consumer[channel]].end);
        end = std::min(end, needed);
      }
      changed |= end < stages[i].end;
      stages[i].end = end;
    }
  }
}

}  // namespace headrace
