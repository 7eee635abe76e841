#include "plan/wait_graph.h"

#include "headrace/error.h"

namespace headrace {

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

}  // namespace headrace
