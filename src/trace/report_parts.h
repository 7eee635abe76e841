// What the HTML report and the SVG picture share. Layer: trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/record.h"
#include "headrace/report.h"

namespace headrace {

// Files of src/trace/report/, compiled in by cmake/embed.cmake.
namespace report_files {
extern const std::string_view palette_css, report_css, report_html, report_js, timeline_js,
    chart_js;
}

struct TimeWindow {
  std::int64_t start_ns = 0, end_ns = 0;
  bool operator==(const TimeWindow&) const = default;
};

// From the first start to the last end; {0, 0} without spans.
TimeWindow whole_window(const std::vector<Span>& spans);

// `steps` steps from the middle of the run, between two completions of a step (the last end of work
// that names it). The whole run where it has too few steps, or where `steps` is 0.
TimeWindow steady_window(const std::vector<Span>& spans, std::uint64_t steps);

// What a span is drawn as: a wait by its cause, anything else by its stage (by its kind where it
// has none).
struct Look {
  std::string name;
  bool wait = false;
  bool operator==(const Look&) const = default;
};
Look look_of(const Span& span);

// The looks of all spans: work in order of first start, then waits in the order of the causes'
// table.
std::vector<Look> looks_of(const std::vector<Span>& spans_by_start);

// Number of colours for stages in palette.css (--stage-0 ...); further stages start again.
inline constexpr std::size_t stage_colours = 8;

std::vector<Span> sorted_by_start(std::vector<Span> spans);

// The page's data as JSON that may stand inside a <script> element.
std::string report_json(const Report& report);

}  // namespace headrace
