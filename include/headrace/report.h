// One self-contained HTML file that shows a run: where every device spent its time, schedules side
// by side, curves. It opens offline and needs nothing beside it. Also a static picture of a
// timeline. Layer: trace.
//
// Everything in a Report is shown as plain text: markup in a stage's name stays text. An empty part
// is left out of the page. Times of spans are nanoseconds, all other times seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headrace/record.h"

namespace headrace {

// A number worth a card at the top: "tokens per second", "531", "two cores, fp32".
struct ReportFigure {
  std::string label, value, note;
};

// A lane for each device of `header`. Several timelines stand below one another and start at the
// same scale, so that schedules, or measured and predicted, can be compared by eye.
struct ReportTimeline {
  std::string title, note;
  TraceHeader header;
  std::vector<Span> spans;  // in any order
};

// Where one device's time went, as parts of the host's span. The seven add up to 1.
struct ReportShares {
  std::string device;
  double busy = 0, starved = 0, back_pressured = 0, synchronising = 0, host = 0, startup = 0,
         tail = 0;
};

// One schedule (or placement): seconds a step as measured and as predicted, and the bound no
// schedule beats.
struct ReportSchedule {
  std::string name;
  std::optional<double> measured, predicted, bound;
};

// One line of a chart. A NaN in y leaves a gap. Error(internal) where the lengths differ.
struct ReportSeries {
  std::string name;
  std::vector<double> x, y;
};

struct ReportChart {
  std::string title, x_label, y_label, note;
  std::vector<ReportSeries> series;
};

// Every row has as many cells as there are columns (Error(internal) otherwise).
struct ReportTable {
  std::string title, note;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct Report {
  std::string title, subtitle;
  std::vector<ReportFigure> figures;
  std::vector<ReportTimeline> timelines;
  std::vector<ReportShares> shares;
  std::vector<ReportSchedule> schedules;
  std::vector<ReportChart> charts;
  std::vector<ReportTable> tables;
  std::vector<std::string> notes;
};

// The page. Error(internal) where a device's shares do not add up to 1 within 1e-6 or a span names
// a device that the header has not.
std::string report_html(const Report& report);

struct SvgOptions {
  std::uint64_t steps = 4;  // steady steps shown, from the middle of the run; 0: the whole run
  int width = 960;          // pixels
  std::string title;
};

// A static picture of the same spans for a README: light and dark follow the reader's setting.
std::string timeline_svg(const TraceHeader& header, const std::vector<Span>& spans,
                         const SvgOptions& options = {});

}  // namespace headrace
