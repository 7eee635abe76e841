#include "headrace/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "headrace/error.h"
#include "trace/report_parts.h"

namespace headrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* hostile = "</script><!--<img src=x onerror=alert(1)>&\"'";

Span work(std::uint32_t device, const std::string& stage, std::uint64_t step, std::int64_t start,
          std::int64_t end) {
  return {.start_ns = start,
          .end_ns = end,
          .kind = SpanKind::work,
          .device = device,
          .stage = stage,
          .step = step};
}

Span wait(std::uint32_t device, const std::string& cause, std::int64_t start, std::int64_t end) {
  return {.start_ns = start,
          .end_ns = end,
          .kind = SpanKind::wait,
          .device = device,
          .cause = cause,
          .channel = "features"};
}

// A target of 700 and a drafter of 300 in lock-step: step n ends at 1000 (n + 1).
ReportTimeline lockstep(std::uint64_t steps) {
  ReportTimeline timeline{
      "lock-step", "", {.schedule = "lockstep", .devices = {"cpu0", "cpu1"}}, {}};
  for (std::uint64_t n = 0; n < steps; ++n) {
    const auto t = static_cast<std::int64_t>(n) * 1000;
    timeline.spans.push_back(work(0, "target", n, t, t + 700));
    timeline.spans.push_back(wait(0, "synchronising", t + 700, t + 1000));
    timeline.spans.push_back(wait(1, "starved", t, t + 700));
    timeline.spans.push_back(work(1, "drafter", n, t + 700, t + 1000));
  }
  return timeline;
}

// What a browser would hand to JSON.parse: the text up to the first end tag.
json embedded(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t start = html.find(open) + open.size();
  return json::parse(html.substr(start, html.find("</script", start) - start));
}

TEST(Report, HostileTextStaysText) {
  Report report{.title = hostile, .subtitle = hostile};
  report.timelines = {lockstep(3)};
  report.timelines[0].spans[0].stage = hostile;
  report.timelines[0].header.devices[1] = hostile;
  report.notes = {hostile, "{{data}}"};
  const std::string html = report_html(report);
  const json page = embedded(html);
  EXPECT_EQ(page["title"], hostile);
  EXPECT_EQ(page["timelines"][0]["looks"][0]["name"], hostile);
  EXPECT_EQ(page["notes"][1], "{{data}}");
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_EQ(html.find("</html>"), html.rfind("</html>"));
}

TEST(Report, AnyBytesGiveJsonThatParsesBack) {
  EXPECT_TRUE(rc::check([](const std::string& text) {
    const std::string written = report_json({.title = text});
    RC_ASSERT(written.find('<') == std::string::npos);
    RC_ASSERT(json::parse(written)["title"].is_string());
  }));
}

TEST(Report, SpansSurviveTheColumns) {
  EXPECT_TRUE(rc::check([](const std::vector<std::pair<std::uint16_t, std::uint8_t>>& input) {
    ReportTimeline timeline{"t", "", {.devices = {"a", "b"}}, {}};
    for (const auto& [start, length] : input) {
      timeline.spans.push_back(
          work(length % 2u, fmt::format("s{}", length % 3), length, start, start + length));
    }
    const json page = json::parse(report_json({.timelines = {timeline}}))["timelines"][0];
    const std::vector<Span> expected = sorted_by_start(timeline.spans);
    std::int64_t now = expected.empty() ? 0 : expected[0].start_ns;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      now += page["start"][i].get<std::int64_t>();
      RC_ASSERT(now == expected[i].start_ns);
      RC_ASSERT(page["duration"][i] == expected[i].end_ns - expected[i].start_ns);
      RC_ASSERT(page["device"][i] == expected[i].device);
      RC_ASSERT(page["step"][i] == expected[i].step);
      RC_ASSERT(page["looks"][page["look"][i].get<std::size_t>()]["name"] == expected[i].stage);
    }
  }));
}

TEST(Report, SharesThatDoNotAddUpAreRefused) {
  const ReportShares good{"cpu0", 0.5, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05};
  EXPECT_EQ(json::parse(report_json({.shares = {good}}))["shares"][0]["parts"].size(), 7u);
  ReportShares bad = good;
  bad.busy = 0.6;
  EXPECT_THROW(report_json({.shares = {bad}}), Error);
  bad = {"cpu0", 1.2, -0.2};
  EXPECT_THROW(report_json({.shares = {bad}}), Error);
  bad = {"cpu0", std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THROW(report_json({.shares = {bad}}), Error);
}

TEST(Report, IllFormedPartsAreRefused) {
  EXPECT_THROW(report_json({.charts = {{.title = "c", .series = {{"s", {1, 2}, {1}}}}}}), Error);
  EXPECT_THROW(report_json({.tables = {{.title = "t", .columns = {"a", "b"}, .rows = {{"1"}}}}}),
               Error);
  ReportTimeline timeline = lockstep(1);
  timeline.spans[0].device = 2;
  EXPECT_THROW(report_json({.timelines = {timeline}}), Error);
  EXPECT_THROW(timeline_svg(timeline.header, timeline.spans), Error);
}

TEST(Report, GapsAndUnknownsAreNull) {
  Report report;
  report.schedules = {{"async", 1.5, std::nullopt, 1.25}};
  report.charts = {{.title = "c", .series = {{"s", {1, 2}, {std::nan(""), 3}}}}};
  const json page = json::parse(report_json(report));
  EXPECT_TRUE(page["schedules"][0]["predicted"].is_null());
  EXPECT_EQ(page["schedules"][0]["bound"], 1.25);
  EXPECT_TRUE(page["charts"][0]["series"][0]["y"][0].is_null());
}

TEST(Report, LoadsNothing) {
  const std::string html = report_html({.title = "t", .timelines = {lockstep(5)}});
  for (const char* fetch : {"src=", "href=", "@import", "url(", "fetch(", "https:"}) {
    EXPECT_THAT(html, Not(HasSubstr(fetch))) << fetch;
  }
  EXPECT_THAT(html, Not(HasSubstr("{{")));
}

TEST(SteadyWindow, IsFromTheMiddleAndWholeStepsLong) {
  EXPECT_EQ(steady_window(lockstep(20).spans, 4), (TimeWindow{9000, 13000}));
  EXPECT_EQ(steady_window(lockstep(20).spans, 0), (TimeWindow{0, 20000}));
  EXPECT_EQ(steady_window(lockstep(3).spans, 4), (TimeWindow{0, 3000}));
  EXPECT_EQ(steady_window({}, 4), (TimeWindow{0, 0}));
}

TEST(SteadyWindow, LiesInsideTheRun) {
  EXPECT_TRUE(rc::check(
      [](const std::vector<std::pair<std::uint16_t, std::uint8_t>>& input, std::uint8_t steps) {
        std::vector<Span> spans;
        for (const auto& [start, step] : input)
          spans.push_back(work(0, "s", step, start, start + step));
        const TimeWindow whole = whole_window(spans), view = steady_window(spans, steps);
        RC_ASSERT(whole.start_ns <= view.start_ns && view.start_ns <= view.end_ns &&
                  view.end_ns <= whole.end_ns);
      }));
}

TEST(Looks, WorkComesFirstThenCausesInTheirOrder) {
  std::vector<Span> spans = {wait(0, "tail", 0, 1), wait(0, "starved", 1, 2), work(0, "b", 0, 2, 3),
                             work(0, "a", 0, 3, 4), wait(0, "starved", 4, 5), wait(0, "odd", 5, 6)};
  EXPECT_EQ(looks_of(spans),
            (std::vector<Look>{
                {"b", false}, {"a", false}, {"starved", true}, {"tail", true}, {"odd", true}}));
}

TEST(TimelineSvg, EscapesAndShowsOnlyItsWindow) {
  ReportTimeline timeline = lockstep(20);
  timeline.header.devices[0] = hostile;
  const std::string svg =
      timeline_svg(timeline.header, timeline.spans, {.steps = 4, .title = hostile});
  EXPECT_THAT(svg, Not(HasSubstr("<img")));
  EXPECT_THAT(svg, HasSubstr("target 11"));
  EXPECT_THAT(svg, Not(HasSubstr("target 2<")));
  const std::string whole =
      timeline_svg(timeline.header, timeline.spans, {.steps = 0, .width = 6000});
  EXPECT_THAT(whole, HasSubstr("target 2<"));
  EXPECT_THAT(timeline_svg({}, {}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace headrace
