#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "headrace/error.h"
#include "trace/report_parts.h"

namespace headrace {
namespace {

using nlohmann::json;

constexpr std::uint64_t steps_shown_first = 4;

// Spans by column: numbers of one kind stand together, starts as differences, words as indices.
json timeline_json(const ReportTimeline& timeline) {
  const std::vector<Span> spans = sorted_by_start(timeline.spans);
  const std::vector<Look> looks = looks_of(spans);
  std::vector<std::string> channels;
  std::vector<std::int64_t> device, look, start, duration, step, replica, channel;
  const TimeWindow whole = whole_window(spans);
  std::int64_t previous = whole.start_ns;
  for (const Span& span : spans) {
    if (span.device >= timeline.header.devices.size()) {
      fail(ErrorCode::internal, "report: timeline \"{}\": a span names device {} of {}",
           timeline.title, span.device, timeline.header.devices.size());
    }
    device.push_back(span.device);
    look.push_back(std::find(looks.begin(), looks.end(), look_of(span)) - looks.begin());
    start.push_back(span.start_ns - previous);
    previous = span.start_ns;
    duration.push_back(span.end_ns - span.start_ns);
    step.push_back(static_cast<std::int64_t>(span.step));
    replica.push_back(static_cast<std::int64_t>(span.replica));
    auto found = std::find(channels.begin(), channels.end(), span.channel);
    if (found == channels.end()) found = channels.insert(channels.end(), span.channel);
    channel.push_back(found - channels.begin());
  }
  json look_list = json::array();
  for (const Look& entry : looks) look_list.push_back({{"name", entry.name}, {"wait", entry.wait}});
  const TimeWindow view = steady_window(spans, steps_shown_first);
  return {{"title", timeline.title},
          {"note", timeline.note},
          {"schedule", timeline.header.schedule},
          {"devices", timeline.header.devices},
          {"looks", std::move(look_list)},
          {"channels", channels},
          {"whole", {0, whole.end_ns - whole.start_ns}},
          {"view", {view.start_ns - whole.start_ns, view.end_ns - whole.start_ns}},
          {"device", device},
          {"look", look},
          {"start", start},
          {"duration", duration},
          {"step", step},
          {"replica", replica},
          {"channel", channel}};
}

json shares_json(const ReportShares& s) {
  const std::vector<double> parts = {
      s.busy, s.starved, s.back_pressured, s.synchronising, s.host, s.startup, s.tail};
  double sum = 0;
  for (double part : parts) sum += part;
  if (!(std::abs(sum - 1) <= 1e-6) || *std::min_element(parts.begin(), parts.end()) < 0) {
    fail(ErrorCode::internal, "report: the shares of device {} add up to {}, not to 1", s.device,
         sum);
  }
  return {{"device", s.device}, {"parts", parts}};
}

json optional_json(const std::optional<double>& value) {
  return value ? json(*value) : json();
}

json chart_json(const ReportChart& chart) {
  json series = json::array();
  for (const ReportSeries& line : chart.series) {
    if (line.x.size() != line.y.size()) {
      fail(ErrorCode::internal, "report: chart \"{}\", series \"{}\": {} x, {} y", chart.title,
           line.name, line.x.size(), line.y.size());
    }
    series.push_back({{"name", line.name}, {"x", line.x}, {"y", line.y}});
  }
  return {{"title", chart.title},
          {"x", chart.x_label},
          {"y", chart.y_label},
          {"note", chart.note},
          {"series", std::move(series)}};
}

json table_json(const ReportTable& table) {
  for (const auto& row : table.rows) {
    if (row.size() != table.columns.size()) {
      fail(ErrorCode::internal, "report: table \"{}\": a row of {} cells under {} columns",
           table.title, row.size(), table.columns.size());
    }
  }
  return {{"title", table.title},
          {"note", table.note},
          {"columns", table.columns},
          {"rows", table.rows}};
}

template <typename T, typename F>
json list_json(const std::vector<T>& items, F one) {
  json list = json::array();
  for (const T& item : items) list.push_back(one(item));
  return list;
}

}  // namespace

std::string report_json(const Report& report) {
  const json page = {
      {"title", report.title},
      {"subtitle", report.subtitle},
      {"figures", list_json(report.figures,
                            [](const ReportFigure& f) {
                              return json{{"label", f.label}, {"value", f.value}, {"note", f.note}};
                            })},
      {"timelines", list_json(report.timelines, timeline_json)},
      {"shares", list_json(report.shares, shares_json)},
      {"schedules", list_json(report.schedules,
                              [](const ReportSchedule& s) {
                                return json{{"name", s.name},
                                            {"measured", optional_json(s.measured)},
                                            {"predicted", optional_json(s.predicted)},
                                            {"bound", optional_json(s.bound)}};
                              })},
      {"charts", list_json(report.charts, chart_json)},
      {"tables", list_json(report.tables, table_json)},
      {"notes", report.notes}};
  // Bytes that are no UTF-8 become U+FFFD. Outside strings JSON has no '<', so this leaves the
  // value as it is and takes "</script>" and "<!--" out of the HTML parser's sight.
  const std::string text = page.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace headrace
