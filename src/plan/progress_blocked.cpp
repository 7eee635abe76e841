#include <fmt/format.h>

#include "headrace/error.h"
#include "headrace/quantity.h"
#include "plan/progress_state.h"

namespace headrace {
namespace {

// "features: 4/4 items, 2.0 GiB of 2.0 GiB".
std::string fill(const Channel& bound, std::uint64_t items, std::uint64_t bytes) {
  std::string text = fmt::format("{}: {}/{} items", bound.name, items, bound.items);
  if (bound.bytes > 0)
    text += fmt::format(", {} of {}", format_bytes(bytes), format_bytes(bound.bytes));
  return text;
}

}  // namespace

WaitCause Progress::wait_cause(std::size_t resource) const {
  const State& s = *state_;
  const auto pending = s.first_pending(resource);
  State::Obstacle obstacle{WaitCause::synchronising};
  if (pending &&
      s.next_of(s.stages[pending->stage], pending->replica) == s.stages[pending->stage].started)
    s.ready_but_for_devices(pending->stage, &obstacle);
  return obstacle.cause;
}

Blocked Progress::blocked(std::size_t resource) const {
  const State& s = *state_;
  const auto pending = s.first_pending(resource);
  if (!pending)
    fail(ErrorCode::internal, "device {} is done: nothing blocks it",
         s.plan.resources[resource].name);
  const State::StageState& stage = s.stages[pending->stage];
  const std::uint64_t sequence = s.next_of(stage, pending->replica);
  Blocked blocked{{pending->stage, pending->replica, sequence, sequence / stage.per_step},
                  WaitCause::synchronising,
                  "",
                  ""};
  const std::string& name = s.plan.stages[pending->stage].name;
  State::Obstacle obstacle{WaitCause::synchronising};
  if (sequence != stage.started) {
    blocked.waits_for = fmt::format("replica {} to start firing {} of {}",
                                    stage.started % stage.running.size(), stage.started, name);
  } else if (s.ready_but_for_devices(pending->stage, &obstacle) && s.devices_free(*pending)) {
    blocked.waits_for = "another stage to take its lock first";
  } else if (obstacle.channel == Graph::none && !obstacle.edge &&
             obstacle.resource == Graph::none) {
    blocked.waits_for = "its other devices:";
    for (std::size_t device : stage.holds[pending->replica])
      if (device != resource) blocked.waits_for += " " + s.plan.resources[device].name;
  } else {
    blocked.cause = obstacle.cause;
    if (obstacle.channel != Graph::none) {
      blocked.channel = s.plan.channels[obstacle.channel].name;
      blocked.waits_for = fill(s.plan.channels[obstacle.channel], items_in(obstacle.channel),
                               bytes_in(obstacle.channel));
    } else if (obstacle.edge) {
      blocked.waits_for =
          fmt::format("{} to complete step {}", s.plan.stages[obstacle.edge->from].name,
                      stage.next_step - obstacle.edge->lag);
    } else {
      blocked.waits_for = "lock " + s.plan.resources[obstacle.resource].name;
    }
  }
  return blocked;
}

Blocked Progress::back_pressure(const Firing& firing,
                                const std::vector<std::uint64_t>& bytes) const {
  const State& s = *state_;
  const State::StageState& stage = s.stages[firing.stage];
  const auto& outputs = s.graph.stages[firing.stage].outputs;
  Blocked blocked{firing, WaitCause::back_pressured, "", ""};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Channel& bound = s.plan.channels[outputs[i]];
    const bool out_of_turn =
        bound.order == Order::sequence && stage.running[firing.replica] != stage.completed;
    const bool full = items_in(outputs[i]) >= bound.items ||
                      (bound.bytes > 0 && bytes_in(outputs[i]) + bytes[i] > bound.bytes);
    if (!out_of_turn && !full) continue;
    blocked.channel = bound.name;
    blocked.waits_for = out_of_turn
                            ? fmt::format("{}: item {} to enter first", bound.name, stage.completed)
                            : fill(bound, items_in(outputs[i]), bytes_in(outputs[i]));
    break;
  }
  return blocked;
}

}  // namespace headrace
