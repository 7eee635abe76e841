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

Waiting Progress::waiting(std::size_t resource) const {
  const State& s = *state_;
  const auto pending = s.first_pending(resource);
  if (!pending)
    fail(ErrorCode::internal, "device {} is done: nothing blocks it",
         s.plan.resources[resource].name);
  const State::StageState& stage = s.stages[pending->stage];
  const std::uint64_t sequence = s.next_of(stage, pending->replica);
  State::Obstacle obstacle{WaitCause::synchronising};
  if (sequence == stage.started) s.ready_but_for_devices(pending->stage, &obstacle);
  return {{pending->stage, pending->replica, sequence, sequence / stage.per_step},
          obstacle.cause,
          obstacle.channel == Graph::none ? std::nullopt : std::optional(obstacle.channel)};
}

Blocked Progress::blocked(std::size_t resource) const {
  const State& s = *state_;
  const auto [firing, cause, channel] = waiting(resource);
  const State::Candidate pending{firing.stage, firing.replica};
  const State::StageState& stage = s.stages[firing.stage];
  Blocked blocked{firing, cause, "", ""};
  const std::string& name = s.plan.stages[firing.stage].name;
  State::Obstacle obstacle{WaitCause::synchronising};
  if (firing.sequence != stage.started) {
    blocked.waits_for = fmt::format("replica {} to start firing {} of {}",
                                    stage.started % stage.running.size(), stage.started, name);
  } else if (s.ready_but_for_devices(pending.stage, &obstacle) && s.devices_free(pending)) {
    blocked.waits_for = "another stage to take its lock first";
  } else if (channel) {
    blocked.channel = s.plan.channels[*channel].name;
    blocked.waits_for = fill(s.plan.channels[*channel], items_in(*channel), bytes_in(*channel));
  } else if (obstacle.edge) {
    blocked.waits_for =
        fmt::format("{} to complete step {}", s.plan.stages[obstacle.edge->from].name,
                    stage.next_step - obstacle.edge->lag);
  } else if (obstacle.resource != Graph::none) {
    blocked.waits_for = "lock " + s.plan.resources[obstacle.resource].name;
  } else {
    blocked.waits_for = "its other devices:";
    for (std::size_t device : stage.holds[pending.replica])
      if (device != resource) blocked.waits_for += " " + s.plan.resources[device].name;
  }
  return blocked;
}

std::size_t Progress::full_channel(const Firing& firing,
                                   const std::vector<std::uint64_t>& bytes) const {
  const State& s = *state_;
  const auto& outputs = s.graph.stages[firing.stage].outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (s.out_of_turn(firing, outputs[i]) || s.full(outputs[i], bytes[i])) return outputs[i];
  fail(ErrorCode::internal, "the outputs of stage {} fit", s.plan.stages[firing.stage].name);
}

Blocked Progress::back_pressure(const Firing& firing,
                                const std::vector<std::uint64_t>& bytes) const {
  const State& s = *state_;
  const std::size_t channel = full_channel(firing, bytes);
  const Channel& bound = s.plan.channels[channel];
  return {firing, WaitCause::back_pressured, bound.name,
          s.out_of_turn(firing, channel) ? fmt::format("{}: item {} to enter first", bound.name,
                                                       s.stages[firing.stage].completed)
                                         : fill(bound, items_in(channel), bytes_in(channel))};
}

}  // namespace headrace
