// Re-planning inside a run: measure, let a thread beside the workers ask the model, and apply what
// it proposes at the end of a step.
#include <algorithm>
#include <system_error>
#include <thread>

#include "flow/executor_state.h"
#include "flow/replan_plan.h"

namespace headrace {
namespace {

constexpr std::size_t kCostSamples = 64;  // of each stage: the latest

template <typename Things>
std::size_t index_of(const Things& things, const std::string& name) {
  const auto found = std::find_if(things.begin(), things.end(),
                                  [&](const auto& thing) { return thing.name == name; });
  return static_cast<std::size_t>(found - things.begin());
}

}  // namespace

void Executor::State::Stretch::add(std::uint64_t steps, Clock::time_point now) {
  if (first == 0) {
    first = steps;
    first_time = now;
  }
  last = steps;
  last_time = now;
}

double Executor::State::Stretch::step_seconds() const {
  if (last == first) return 0;
  return std::chrono::duration<double>(last_time - first_time).count() /
         static_cast<double>(last - first);
}

// The first step is left out: it warms up caches and fills channels.
void Executor::State::note_cost(const Worker& worker, Clock::duration time) {
  const Firing& firing = worker.context.firing;
  if (replan->due || firing.step == 0) return;
  std::vector<double>& costs = replan->costs[firing.stage];
  const double seconds = std::chrono::duration<double>(time).count();
  if (costs.size() < kCostSamples)
    costs.push_back(seconds);
  else
    costs[replan->noted[firing.stage] % kCostSamples] = seconds;
  ++replan->noted[firing.stage];
  const std::vector<std::size_t>& channels = graph.stages[firing.stage].outputs;
  for (std::size_t i = 0; i < channels.size(); ++i)
    replan->largest[channels[i]] = std::max(replan->largest[channels[i]], worker.bytes[i]);
}

void Executor::State::note_steps() {
  const std::uint64_t steps = progress.steps_completed();
  if (steps == replan->steps) return;
  replan->steps = steps;
  const std::uint64_t wanted = options.replan.after_steps;
  const Clock::time_point now = Clock::now();
  if (!replan->due) {
    if (steps >= std::max<std::uint64_t>(wanted / 5, 1)) replan->before.add(steps, now);
    if (steps < wanted) return;
    replan->due = true;
    replan->changed.notify_all();
  } else if (replan->ready) {
    apply_replan();
  } else if (replan->settled_at > 0 && steps >= replan->settled_at) {
    replan->after.add(steps, now);
  }
}

Plan Executor::State::measured_plan() const {
  Plan measured = replan->plan;
  for (std::size_t i = 0; i < measured.stages.size(); ++i)
    measured.stages[i].cost = {replan->costs[i], {}};
  for (std::size_t i = 0; i < measured.channels.size(); ++i) {
    std::uint64_t& declared = measured.channels[i].item_bytes;
    if (declared == 0) declared = replan->largest[i];
  }
  return measured;
}

void Executor::State::replan_when_due(const std::stop_token& ended) noexcept {
  std::vector<std::jthread> more_workers;
  Lock lock(mutex, std::defer_lock);
  try {
    name_thread("replan");
    lower_priority();
    lock.lock();
    if (!replan->changed.wait(lock, ended, [&] { return replan->due; })) return;
    replan->outcome.plan = measured_plan();
    replan->outcome.measured_steps = replan->steps;
    replan->outcome.measured_before = replan->before.step_seconds();
    ReplanOutcome proposal = replan->outcome;
    lock.unlock();
    const ReplanOutcome model =
        propose_replan(proposal.plan, replan->schedule, options.replan, ended);
    proposal.predicted_before = model.predicted_before;
    proposal.predicted_after = model.predicted_after;
    proposal.changes = model.changes;
    proposal.reason = model.reason;
    proposal.plan = model.plan;
    lock.lock();
    replan->outcome = proposal;
    if (proposal.changes.empty()) return;

    replan->opening = true;
    lock.unlock();
    for (Worker& worker : workers)
      if (worker.spare && index_of(proposal.plan.resources, plan.resources[worker.resource].name) <
                              proposal.plan.resources.size())
        more_workers.emplace_back([this, &worker] { work(worker); });
    lock.lock();
    replan->ready = true;
    replan->changed.wait(lock, ended, [] { return false; });  // the workers need this scope
  } catch (...) {
    const Error failure = caught([] { return std::string("re-planning"); });
    if (!lock.owns_lock()) lock.lock();
    replan->outcome.reason = failure.what();
  }
  if (!lock.owns_lock()) lock.lock();
  replan->opening = replan->ready = false;
  wake_all();
  lock.unlock();
}

void Executor::State::apply_replan() {
  ReplanOutcome& outcome = replan->outcome;
  std::uint64_t steps_to_fill = 1;
  for (const ReplanChange& change : outcome.changes) {
    if (change.what == "workers") {
      const std::size_t stage = index_of(plan.stages, change.name);
      for (std::uint64_t replica = change.from; replica < change.to; ++replica) {
        const std::string name = worker_name(change.name, replica);
        const std::size_t resource = index_of(plan.resources, name);
        progress.add_replica(stage, resource);
        holds[stage].push_back({resource});
        plan.stages[stage].on.push_back(name);
        ++plan.stages[stage].replicas;
      }
    } else {
      const std::size_t channel = index_of(plan.channels, change.name);
      const Channel& wanted = outcome.plan.channels[channel];
      const std::uint64_t per_step = plan.stages[graph.producer[channel]].per_step;
      progress.widen(channel, wanted.items, wanted.bytes);
      steps_to_fill = std::max(steps_to_fill, (wanted.items + per_step - 1) / per_step);
    }
  }
  outcome.applied_at_step = replan->steps;
  replan->settled_at = replan->steps + steps_to_fill;
  replan->opening = replan->ready = false;
  wake_all();
}

void Executor::State::close_replan() {
  ReplanOutcome& outcome = replan->outcome;
  outcome.measured_after = replan->after.step_seconds();
  if (outcome.applied_at_step > 0 || !outcome.reason.empty()) return;
  outcome.reason = outcome.measured_steps == 0
                       ? fmt::format("the run ended before step {}", options.replan.after_steps)
                       : "the run ended before the change could be applied";
}

}  // namespace headrace
