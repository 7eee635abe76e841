// What an Executor says about itself: to the trace, the watchdog and the reader of a hang.
#include <cstdio>
#include <utility>

#include "flow/executor_state.h"
#include "flow/wait_graph.h"

namespace headrace {

void Executor::State::moved() {
  ++changes;
  changed.notify_all();
  if (recorder == nullptr) return;
  const std::int64_t now = now_ns();
  for (std::size_t resource = 0; resource < running.size(); ++resource)
    timeline->set(resource, activity(resource), now);
}

Span Executor::State::activity(std::size_t resource) const {
  const auto span = [&](const Firing& firing, SpanKind kind, const char* cause,
                        std::string channel) {
    return Span{.kind = kind,
                .stage = plan.stages[firing.stage].name,
                .replica = firing.replica,
                .step = firing.step,
                .sequence = firing.sequence,
                .cause = cause,
                .channel = std::move(channel)};
  };
  if (const Running* one = running[resource]; one != nullptr && !one->delivers) {
    const bool sync =
        plan.stages[one->firing.stage].name == "sync" || held_by(one->firing).size() > 1;
    return span(one->firing, sync ? SpanKind::sync : SpanKind::work, "", "");
  } else if (one != nullptr && !progress.can_finish(one->firing, one->bytes)) {
    const Blocked blocked = progress.back_pressure(one->firing, one->bytes);
    return span(one->firing, SpanKind::wait, to_string(blocked.cause), blocked.channel);
  } else if (one == nullptr && !progress.busy(resource) && !progress.device_done(resource) &&
             !progress.startable(resource)) {
    const Blocked blocked = progress.blocked(resource);
    return span(blocked.firing, SpanKind::wait, to_string(blocked.cause), blocked.channel);
  }
  // Done, stopped, or free to go on while its thread has not yet woken up.
  return {.kind = SpanKind::wait, .cause = "host"};
}

std::optional<std::uint64_t> Executor::State::stuck() {
  const Lock lock(mutex);
  if (reporting || progress.done()) return std::nullopt;
  std::uint64_t seen = changes;
  for (std::size_t resource = 0; resource < running.size(); ++resource) {
    const Running* one = running[resource];
    if (one == nullptr) {
      if (!stopped() && progress.startable(resource)) return std::nullopt;
    } else if (!one->delivers) {
      const ThreadWait::Snapshot wait = one->worker->wait.snapshot();
      if (!wait.waits_to) return std::nullopt;
      seen += wait.changes;
    }
  }
  return seen;
}

std::string Executor::State::wait_for_graph() const {
  std::string lines;
  for (std::size_t resource = 0; resource < running.size(); ++resource) {
    const Running* one = running[resource];
    std::string words;
    if (one != nullptr && one->delivers) {
      words = send_words(plan, progress, one->firing, one->bytes);
    } else if (one != nullptr) {
      const std::string name = firing_name(plan, one->firing);
      const ThreadWait::Snapshot wait = one->worker->wait.snapshot();
      words = wait.waits_to ? fmt::format("{} waits to {}", name, *wait.waits_to)
                            : fmt::format("{} works on step {}", name, one->firing.step);
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

void Executor::State::report_hang() {
  Lock lock(mutex);
  const std::string message = fmt::format("no progress for {} s; who waits for what:\n{}",
                                          options.watchdog_seconds, wait_for_graph());
  lock.unlock();
  try {
    if (options.on_hang) {
      options.on_hang(message);
    } else if (!options.stop_on_hang) {
      std::fprintf(stderr, "headrace: %s\n", message.c_str());
    }
    lock.lock();
    if (options.stop_on_hang) fail_with(lock, Error(ErrorCode::hang, message), true);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    fail_with(lock, seen_from("on_hang"), true);
  }
}

}  // namespace headrace
