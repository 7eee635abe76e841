#include "cli/predict_report.h"

#include <fmt/ranges.h>

#include <cmath>

#include "headrace/quantity.h"

namespace headrace {
namespace {

constexpr std::uint64_t shown_steps =
    12;  // the start, and enough of the steady part to see its rhythm

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

ReportTimeline timeline(const Plan& plan, const Simulation& simulation) {
  ReportTimeline result;
  result.title = simulation.schedule;
  result.note =
      fmt::format("{} a step; the pace is set by {}", format_seconds(simulation.step_seconds),
                  fmt::join(simulation.critical_path, ", then "));
  result.header.schedule = simulation.schedule;
  std::vector<std::uint32_t> lane(plan.resources.size(), 0);
  for (std::size_t i = 0; i < plan.resources.size(); ++i) {
    const ResourceKind kind = plan.resources[i].kind;
    if (kind != ResourceKind::device && kind != ResourceKind::host) continue;
    lane[i] = static_cast<std::uint32_t>(result.header.devices.size());
    result.header.devices.push_back(plan.resources[i].name);
  }
  double shown = 0;
  for (const SimulatedSpan& from : simulation.spans) {
    if (from.step >= shown_steps) continue;
    shown = std::max(shown, from.end);
    Span span;
    span.start_ns = nanoseconds(from.start);
    span.end_ns = nanoseconds(from.end);
    span.device = lane[from.resource];
    span.stage = plan.stages[from.stage].name;
    span.replica = from.replica;
    span.step = from.step;
    span.sequence = from.sequence;
    result.spans.push_back(span);
  }
  for (const SimulatedWait& from : simulation.waits) {
    if (from.end > shown) continue;
    Span span;
    span.start_ns = nanoseconds(from.start);
    span.end_ns = nanoseconds(from.end);
    span.kind = SpanKind::wait;
    span.device = lane[from.resource];
    span.cause = to_string(from.cause);
    result.spans.push_back(span);
  }
  return result;
}

}  // namespace

Report predict_report(const Plan& plan, const std::vector<Simulation>& simulations) {
  Report report;
  report.title = plan.name.empty() ? "Predicted plan" : plan.name;
  report.subtitle = "Predicted by headrace: the first steps under each schedule";
  for (const Simulation& simulation : simulations) {
    report.schedules.push_back(
        {simulation.schedule, std::nullopt, simulation.step_seconds, simulation.bound_seconds});
    report.timelines.push_back(timeline(plan, simulation));
  }
  return report;
}

}  // namespace headrace
