#include "headrace/progress.h"

#include <algorithm>
#include <cassert>

#include "headrace/error.h"
#include "headrace/quantity.h"
#include "plan/progress_state.h"

namespace headrace {

const char* to_string(WaitCause cause) {
  switch (cause) {
    case WaitCause::starved:
      return "starved";
    case WaitCause::back_pressured:
      return "back_pressured";
    case WaitCause::synchronising:
      return "synchronising";
    case WaitCause::host:
      return "host";
  }
  return "unknown";
}

Progress::Progress(const Plan& plan, const std::vector<Edge>& edges, std::uint64_t steps)
    : state_(std::make_unique<State>(plan, edges, steps)) {}

Progress::~Progress() = default;

std::optional<Firing> Progress::startable(std::size_t resource) const {
  const State& s = *state_;
  if (s.held[resource]) return std::nullopt;
  const auto first = s.first_ready(resource);
  if (!first) return std::nullopt;
  const State::StageState& stage = s.stages[first->stage];
  // A firing that waits only for its other devices, or for its owner, keeps this one free for
  // itself.
  if (stage.holds[first->replica].front() != resource || !s.devices_free(*first))
    return std::nullopt;
  if (s.lock_is_due_elsewhere(*first)) return std::nullopt;
  return Firing{first->stage, first->replica, stage.started, stage.next_step};
}

const std::vector<std::uint64_t>& Progress::start(const Firing& firing) {
  State& s = *state_;
  State::StageState& stage = s.stages[firing.stage];
  assert(firing.sequence == stage.started && stage.running[firing.replica] == State::unlimited);
  stage.running[firing.replica] = stage.started++;
  if (stage.started == stage.next_step_end) {
    ++stage.next_step;
    stage.next_step_end += stage.per_step;
  }
  for (std::size_t resource : stage.holds[firing.replica]) s.held[resource] = true;
  for (std::size_t resource : stage.locks) s.held[resource] = true;
  if (stage.reserves)
    for (std::size_t channel : s.graph.stages[firing.stage].outputs) ++s.channels[channel].promised;

  s.taken.clear();
  for (std::size_t channel : s.graph.stages[firing.stage].inputs) {
    State::ChannelState& state = s.channels[channel];
    s.taken.push_back(state.items.front().sequence);
    state.bytes -= state.items.front().bytes;
    state.items.pop_front();
  }
  return s.taken;
}

bool Progress::can_finish(const Firing& firing, const std::vector<std::uint64_t>& bytes) const {
  const State& s = *state_;
  const auto& outputs = s.graph.stages[firing.stage].outputs;
  bool fits = true;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Channel& bound = s.plan.channels[outputs[i]];
    if (bound.bytes > 0 && bytes[i] > bound.bytes)
      fail(ErrorCode::bad_input,
           "channel {}: an item of {} can never fit its bound of {}; raise `bytes` or make the "
           "items smaller",
           bound.name, format_bytes(bytes[i]), format_bytes(bound.bytes));
    if (bound.item_bytes > 0 && bytes[i] > bound.item_bytes)
      fail(ErrorCode::bad_input,
           "channel {}: an item of {} is larger than its item_bytes of {}; raise `item_bytes`",
           bound.name, format_bytes(bytes[i]), format_bytes(bound.item_bytes));
    if (s.out_of_turn(firing, outputs[i]) || s.full(outputs[i], bytes[i])) fits = false;
  }
  return fits;
}

bool Progress::drops(std::size_t channel) const {
  return state_->closed(channel);
}

void Progress::finish(const Firing& firing, const std::vector<std::uint64_t>& bytes) {
  State& s = *state_;
  const auto& outputs = s.graph.stages[firing.stage].outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (s.closed(outputs[i])) continue;
    State::ChannelState& state = s.channels[outputs[i]];
    state.items.push_back({firing.sequence, bytes[i]});
    state.bytes += bytes[i];
  }
  s.release(firing);
  s.update_completed(s.stages[firing.stage]);
}

void Progress::end_of_stream(const Firing& firing) {
  State& s = *state_;
  State::StageState& stage = s.stages[firing.stage];
  if (!s.graph.stages[firing.stage].inputs.empty())
    fail(ErrorCode::internal, "stage {} has inputs: only a source ends the stream",
         s.plan.stages[firing.stage].name);
  // Replicas may have started later firings, and may have got a batch: those take the number that
  // became free, so that what was served is counted once and without a gap.
  const std::uint64_t given_up = stage.running[firing.replica];
  s.release(firing);
  for (std::uint64_t& running : stage.running)
    if (running != State::unlimited && running > given_up) --running;
  stage.end = --stage.started;
  s.update_completed(stage);
  s.settle_ends();
}

std::uint64_t Progress::completed(std::size_t stage) const {
  const State::StageState& s = state_->stages[stage];
  const auto running = std::count_if(s.running.begin(), s.running.end(),
                                     [](std::uint64_t q) { return q != State::unlimited; });
  return s.started - static_cast<std::uint64_t>(running);
}

std::uint64_t Progress::steps_completed() const {
  const State& s = *state_;
  std::uint64_t unfinished = State::unlimited, finished = 0;
  for (const State::StageState& stage : s.stages) {
    if (!stage.counts) continue;
    if (stage.completed < stage.end)
      unfinished = std::min(unfinished, stage.completed / stage.per_step);
    else  // an ended stage holds nobody back; a partial last step counts
      finished = std::max(finished, (stage.end + stage.per_step - 1) / stage.per_step);
  }
  return unfinished == State::unlimited ? finished : unfinished;
}

std::uint64_t Progress::firings_in_step(std::size_t stage, std::uint64_t step) const {
  const State::StageState& s = state_->stages[stage];
  const std::uint64_t first = step * s.per_step;
  return first >= s.end ? 0 : std::min(s.per_step, s.end - first);
}

bool Progress::busy(std::size_t resource) const {
  return state_->held[resource];
}

bool Progress::device_done(std::size_t resource) const {
  return !busy(resource) && !state_->first_pending(resource);
}

bool Progress::done() const {
  return std::all_of(state_->stages.begin(), state_->stages.end(),
                     [](const State::StageState& stage) { return stage.completed >= stage.end; });
}

void Progress::widen(std::size_t channel, std::uint64_t items, std::uint64_t bytes) {
  Channel& bound = state_->plan.channels[channel];
  if (items < bound.items || (bytes > 0 && bytes < bound.bytes) || (bytes > 0) != (bound.bytes > 0))
    fail(ErrorCode::internal, "channel {} would hold less than before", bound.name);
  bound.items = items;
  bound.bytes = bytes;
}

void Progress::add_replica(std::size_t index, std::size_t resource) {
  State& s = *state_;
  State::StageState& stage = s.stages[index];
  Stage& planned = s.plan.stages[index];
  if (!s.graph.stages[index].host || !stage.locks.empty() ||
      planned.on.size() != planned.replicas || !s.candidates[resource].empty())
    fail(ErrorCode::internal, "stage {} cannot get a replica on {} now", planned.name,
         s.plan.resources[resource].name);
  s.candidates[resource].push_back({index, planned.replicas});
  stage.running.push_back(State::unlimited);
  stage.holds.push_back({resource});
  s.graph.stages[index].on.push_back(resource);
  planned.on.push_back(s.plan.resources[resource].name);
  ++planned.replicas;
}

std::uint64_t Progress::items_in(std::size_t channel) const {
  return state_->channels[channel].items.size();
}

std::uint64_t Progress::bytes_in(std::size_t channel) const {
  return state_->channels[channel].bytes;
}

}  // namespace headrace
