// What an Executor says about itself: to the trace, the watchdog and the reader of a hang.
#include <cstdio>
#include <utility>

#include "flow/executor_state.h"
#include "plan/wait_graph.h"

namespace headrace {

void Executor::State::note_activities() {
  if (recorder == nullptr) return;
  const std::int64_t now = now_ns();
  for (std::size_t resource = 0; resource < running.size(); ++resource)
    timeline->set(resource, activity(resource), now);
}

Activity Executor::State::activity(std::size_t resource) const {
  const auto of = [&](const Firing& firing, SpanKind kind, std::string_view cause = {},
                      std::optional<std::size_t> channel = {}) {
    return Activity{.kind = kind,
                    .stage = plan.stages[firing.stage].name,
                    .cause = cause,
                    .channel = channel ? std::string_view(plan.channels[*channel].name) : "",
                    .replica = firing.replica,
                    .step = firing.step,
                    .sequence = firing.sequence};
  };
  const Worker* worker = running[resource];
  const Firing* firing = worker != nullptr ? &worker->context.firing : nullptr;
  if (firing != nullptr && worker->phase == Phase::works) {
    const bool sync = plan.stages[firing->stage].name == "sync" || held_by(*firing).size() > 1;
    return of(*firing, sync ? SpanKind::sync : SpanKind::work);
  } else if (firing != nullptr && worker->phase == Phase::delivers &&
             !progress.can_finish(*firing, worker->bytes)) {
    return of(*firing, SpanKind::wait, to_string(WaitCause::back_pressured),
              progress.full_channel(*firing, worker->bytes));
  } else if (firing == nullptr && !progress.busy(resource) && !progress.device_done(resource) &&
             !progress.startable(resource)) {
    const Waiting waiting = progress.waiting(resource);
    return of(waiting.firing, SpanKind::wait, to_string(waiting.cause), waiting.channel);
  }
  // Done, stopped, or free to go on while its thread has not yet woken up.
  return {.cause = "host"};
}

std::optional<std::uint64_t> Executor::State::stuck() noexcept {
  try {
    const Lock lock(mutex);
    if (reporting || progress.done()) return std::nullopt;
    std::uint64_t seen = changes;
    for (const Worker& worker : workers) {
      if (worker.asleep || worker.phase == Phase::left) continue;
      const ThreadWait::Snapshot wait = worker.wait.snapshot();
      if (!wait.waits_to) return std::nullopt;
      seen += wait.changes;
    }
    return seen;
  } catch (...) {  // no memory to look now: at the next time
    return std::nullopt;
  }
}

std::string Executor::State::wait_for_graph() const {
  std::string lines;
  for (std::size_t resource = 0; resource < running.size(); ++resource) {
    const Worker* worker = running[resource];
    std::string words;
    if (worker != nullptr) {
      const Firing& firing = worker->context.firing;
      const ThreadWait::Snapshot wait = worker->wait.snapshot();
      if (worker->phase == Phase::delivers && !progress.can_finish(firing, worker->bytes))
        words = send_words(plan, progress, firing, worker->bytes);
      else if (wait.waits_to)
        words = fmt::format("{} waits to {}", firing_name(plan, firing), *wait.waits_to);
      else
        words = fmt::format("{} works on step {}", firing_name(plan, firing), firing.step);
    } else if (progress.busy(resource) || progress.device_done(resource)) {
      continue;  // done, or given up by an error
    } else {
      const std::optional<Firing> next = progress.startable(resource);
      words = next ? firing_name(plan, *next) + " is about to start"
                   : wait_words(plan, progress, resource);
    }
    lines +=
        fmt::format("{}{}: {}", lines.empty() ? "" : "\n", plan.resources[resource].name, words);
  }
  return lines;
}

void Executor::State::report_hang() noexcept {
  Lock lock(mutex, std::defer_lock);
  try {
    lock.lock();
    const std::string message = fmt::format("no progress for {} s; who waits for what:\n{}",
                                            options.watchdog_seconds, wait_for_graph());
    lock.unlock();
    if (options.on_hang) {
      options.on_hang(message);
    } else if (!options.stop_on_hang) {
      std::fprintf(stderr, "headrace: %s\n", message.c_str());
    }
    if (!options.stop_on_hang) return;
    const Error hang(ErrorCode::hang, message);
    lock.lock();
    fail_with(lock, hang, true);
  } catch (...) {
    const Error failure = caught([] { return std::string("on_hang"); });
    if (!lock.owns_lock()) lock.lock();
    fail_with(lock, failure, true);
  }
}

}  // namespace headrace
