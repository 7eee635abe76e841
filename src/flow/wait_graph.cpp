#include "flow/wait_graph.h"

#include "headrace/error.h"

namespace headrace {
namespace {

struct Held {
  Firing firing;
  std::vector<std::uint64_t> bytes;
};

std::vector<std::uint64_t> declared_bytes(const Plan& plan, const Firing& firing) {
  std::vector<std::uint64_t> bytes;
  for (const std::string& output : plan.stages[firing.stage].outputs)
    bytes.push_back(plan.channel(output).item_bytes);
  return bytes;
}

}  // namespace

std::string firing_name(const Plan& plan, const Firing& firing) {
  const Stage& stage = plan.stages[firing.stage];
  return stage.replicas > 1 ? fmt::format("{}.{}", stage.name, firing.replica) : stage.name;
}

std::string wait_words(const Plan& plan, const Progress& progress, std::size_t resource) {
  const Blocked blocked = progress.blocked(resource);
  const char* verb = blocked.cause == WaitCause::starved          ? "waits to receive from"
                     : blocked.cause == WaitCause::back_pressured ? "waits to send to"
                                                                  : "waits for";
  return fmt::format("{} {} {}", firing_name(plan, blocked.firing), verb, blocked.waits_for);
}

std::string send_words(const Plan& plan, const Progress& progress, const Firing& firing,
                       const std::vector<std::uint64_t>& bytes) {
  return fmt::format("{} waits to send to {}", firing_name(plan, firing),
                     progress.back_pressure(firing, bytes).waits_for);
}

void check_runs(const Plan& plan, const std::vector<Edge>& edges) {
  // A firing only ever waits for work of its own or an earlier step, and in the same way in each
  // step. So what gets stuck is stuck once all stages work at once, each at most a step behind the
  // one before it.
  Progress progress(plan, edges, plan.stages.size() + 2);
  std::vector<Held> held;
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t resource = 0; resource < plan.resources.size(); ++resource)
      while (const std::optional<Firing> firing = progress.startable(resource)) {
        progress.start(*firing);
        held.push_back({*firing, declared_bytes(plan, *firing)});
        moved = true;
      }
    moved |= std::erase_if(held, [&](const Held& one) {
               if (!progress.can_finish(one.firing, one.bytes)) return false;
               progress.finish(one.firing, one.bytes);
               return true;
             }) > 0;
  }
  if (progress.done()) return;
  std::string graph;
  for (const Held& one : held) graph += "\n  " + send_words(plan, progress, one.firing, one.bytes);
  for (std::size_t resource = 0; resource < plan.resources.size(); ++resource)
    if (!progress.busy(resource) && !progress.device_done(resource))
      graph += fmt::format("\n  {}: {}", plan.resources[resource].name,
                           wait_words(plan, progress, resource));
  fail(ErrorCode::bad_input,
       "plan {} cannot run under this schedule: after {} steps everything waits; raise the "
       "capacities or change the edges:{}",
       plan.name, progress.steps_completed(), graph);
}

}  // namespace headrace
