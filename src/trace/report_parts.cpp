#include "trace/report_parts.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

namespace headrace {
namespace {

// The order in which causes stand in every legend and bar.
constexpr std::array<std::string_view, 6> causes = {"starved", "back_pressured", "synchronising",
                                                    "host",    "startup",        "tail"};

std::size_t cause_rank(const std::string& cause) {
  return static_cast<std::size_t>(std::find(causes.begin(), causes.end(), cause) - causes.begin());
}

}  // namespace

TimeWindow whole_window(const std::vector<Span>& spans) {
  if (spans.empty()) return {};
  TimeWindow window{std::numeric_limits<std::int64_t>::max(),
                    std::numeric_limits<std::int64_t>::min()};
  for (const Span& span : spans) {
    window.start_ns = std::min(window.start_ns, span.start_ns);
    window.end_ns = std::max(window.end_ns, span.end_ns);
  }
  return window;
}

TimeWindow steady_window(const std::vector<Span>& spans, std::uint64_t steps) {
  std::map<std::uint64_t, std::int64_t> end_of_step;
  for (const Span& span : spans) {
    if (span.kind == SpanKind::wait) continue;
    auto [entry, added] = end_of_step.try_emplace(span.step, span.end_ns);
    if (!added) entry->second = std::max(entry->second, span.end_ns);
  }
  std::vector<std::int64_t> ends;
  for (const auto& [step, end] : end_of_step) ends.push_back(end);
  std::sort(ends.begin(), ends.end());
  if (steps == 0 || ends.size() <= steps + 1) return whole_window(spans);
  const std::size_t first = (ends.size() - static_cast<std::size_t>(steps)) / 2;
  const TimeWindow window{ends[first], ends[first + static_cast<std::size_t>(steps)]};
  return window.end_ns > window.start_ns ? window : whole_window(spans);
}

Look look_of(const Span& span) {
  if (span.kind == SpanKind::wait) return {span.cause.empty() ? "unknown" : span.cause, true};
  return {span.stage.empty() ? to_string(span.kind) : span.stage, false};
}

std::vector<Look> looks_of(const std::vector<Span>& spans_by_start) {
  std::vector<Look> looks;
  for (const Span& span : spans_by_start) {
    Look look = look_of(span);
    if (std::find(looks.begin(), looks.end(), look) == looks.end())
      looks.push_back(std::move(look));
  }
  const auto waits = std::stable_partition(looks.begin(), looks.end(),
                                           [](const Look& look) { return !look.wait; });
  std::stable_sort(waits, looks.end(), [](const Look& a, const Look& b) {
    return cause_rank(a.name) < cause_rank(b.name);
  });
  return looks;
}

std::vector<Span> sorted_by_start(std::vector<Span> spans) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
  return spans;
}

}  // namespace headrace
