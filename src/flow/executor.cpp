#include "headrace/executor.h"

#include <exception>
#include <utility>

#include "flow/executor_state.h"
#include "flow/watchdog.h"

namespace headrace {

TraceHeader trace_header(const Plan& plan, const ScheduleText& schedule) {
  TraceHeader header;
  Plan ran = plan;
  ran.schedule = schedule;
  header.plan_hash = plan_hash(ran);
  header.schedule = schedule.name;
  for (const ResourceKind kind : {ResourceKind::device, ResourceKind::host})
    for (const Resource& resource : plan.resources)
      if (resource.kind == kind) {
        header.devices.push_back(resource.name);
        header.host_threads += kind == ResourceKind::host ? 1 : 0;
      }
  return header;
}

Executor::Executor(Plan plan, ScheduleText schedule, std::map<std::string, StageFunction> functions,
                   ExecutorOptions options, Recorder* recorder)
    : state_(new State(plan, schedule, std::move(functions), std::move(options), recorder)) {}

Executor::~Executor() = default;

void Executor::request_stop() {
  state_->request_stop();
}

std::uint64_t Executor::steps_completed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->progress.steps_completed();
}

std::string Executor::wait_for_graph() const {
  const std::lock_guard lock(state_->mutex);
  return state_->wait_for_graph();
}

std::optional<ReplanOutcome> Executor::replanned() const {
  const std::lock_guard lock(state_->mutex);
  return state_->replan ? std::optional(state_->replan->outcome) : std::nullopt;
}

Outcome Executor::run() {
  State& state = *state_;
  state.begin();
  {
    std::optional<Watchdog> watchdog;
    std::jthread replanner;
    std::vector<std::jthread> threads;
    try {
      if (state.options.watchdog_seconds > 0)
        watchdog.emplace(
            state.options.watchdog_seconds, [&] { return state.stuck(); },
            [&] { state.report_hang(); });
      if (state.replan)
        replanner = std::jthread([&](std::stop_token ended) { state.replan_when_due(ended); });
      for (State::Worker& worker : state.workers)
        if (!worker.spare) threads.emplace_back([&state, &worker] { state.work(worker); });
    } catch (const std::exception& error) {  // the workers that run wait for those that do not
      state.refuse_to_start(error);
    }
  }  // joins the workers, then those of re-planning, then the watchdog
  return state.end();
}

}  // namespace headrace
