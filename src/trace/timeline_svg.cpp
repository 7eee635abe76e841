// A static timeline for a README: lanes, bars, a time axis and a legend.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "headrace/error.h"
#include "headrace/quantity.h"
#include "headrace/report.h"
#include "trace/report_parts.h"

namespace headrace {
namespace {

constexpr double lane_height = 40, bar_height = 30, wait_height = 16, axis_height = 26,
                 legend_row = 22;
constexpr double character_width =
    6.6;  // of 12 px sans-serif, on average; only decides what is left out

std::string escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;  // XML has no control characters
  }
  return out;
}

std::string words(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

double text_width(std::string_view text) {
  return character_width * static_cast<double>(text.size());
}

std::string fill_of(const Look& look, std::size_t index) {
  return look.wait ? "var(--" + look.name + ", var(--unknown))"
                   : fmt::format("var(--stage-{})", index % stage_colours);
}

class Picture {
 public:
  Picture(const TraceHeader& header, std::vector<Span> spans, const SvgOptions& options)
      : header_(header), options_(options), window_(steady_window(spans, options.steps)) {
    for (Span& span : spans) {
      if (span.end_ns > window_.start_ns && span.start_ns < window_.end_ns)
        spans_.push_back(std::move(span));
    }
    looks_ = looks_of(spans_);
    for (const std::string& device : header.devices)
      left_ = std::max(left_, text_width(device) + 14);
    top_ = options.title.empty() ? axis_height : axis_height + 26;
    legend_top_ = top_ + lane_height * static_cast<double>(header.devices.size()) + 18;
  }

  std::string draw() {
    if (!options_.title.empty()) text(0, 16, options_.title, "title");
    axis();
    for (std::size_t d = 0; d < header_.devices.size(); ++d) {
      const double y = top_ + lane_height * static_cast<double>(d);
      text(0, y + bar_height / 2 + 4, header_.devices[d], "name");
      rectangle(left_, y, right() - left_, bar_height, "var(--lane)");
    }
    for (const Span& span : spans_) bar(span);
    const double height = legend();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
        "height=\"{1:.0f}\" "
        "font-family=\"system-ui, -apple-system, Segoe UI, Roboto, Liberation Sans, DejaVu Sans, "
        "sans-serif\" "
        "font-size=\"12\">\n<title>{2}</title>\n<style>\n{3}"
        ".name, .title {{ fill: var(--ink); font-weight: 600; }} .title {{ font-size: 15px; }}"
        " .soft {{ fill: var(--soft); }}\n</style>\n"
        "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"2\" height=\"6\" "
        "style=\"fill:var(--hatch)\"/></pattern></defs>\n"
        "<rect width=\"100%\" height=\"100%\" style=\"fill:var(--panel)\"/>\n<g "
        "transform=\"translate(12 10)\">\n{4}</g>\n</svg>\n",
        options_.width, height + 20,
        escape(options_.title.empty() ? "Timeline of " + header_.schedule : options_.title),
        report_files::palette_css, body_);
  }

 private:
  double right() const { return options_.width - 24.0; }

  double x_of(std::int64_t ns) const {
    const double part =
        static_cast<double>(ns - window_.start_ns) /
        static_cast<double>(std::max<std::int64_t>(1, window_.end_ns - window_.start_ns));
    return left_ + part * (right() - left_);
  }

  void rectangle(double x, double y, double width, double height, std::string_view fill) {
    fmt::format_to(
        std::back_inserter(body_),
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" style=\"fill:{}\"/>\n",
        x, y, width, height, escape(fill));
  }

  void text(double x, double y, std::string_view words, std::string_view kind,
            std::string_view more = "") {
    fmt::format_to(std::back_inserter(body_),
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\"{}>{}</text>\n", x, y, kind, more,
                   escape(words));
  }

  // Ticks count from the left edge: how long things take matters, not when the run began.
  void axis() {
    const double shown = static_cast<double>(window_.end_ns - window_.start_ns) * 1e-9;
    if (shown <= 0) return;
    const double power = std::pow(10.0, std::floor(std::log10(shown / 6)));
    double step = 10 * power;
    for (double m : {5.0, 2.0, 1.0}) {
      if (m * power >= shown / 6) step = m * power;
    }
    const double bottom = top_ + lane_height * static_cast<double>(header_.devices.size());
    for (int i = 0; i * step <= shown * (1 + 1e-9); ++i) {
      const double x = left_ + i * step / shown * (right() - left_);
      rectangle(x, top_ - 4, 1, bottom - top_, "var(--line)");
      const bool at_end = x > right() - 30;
      text(at_end ? right() : x, top_ - 10, i == 0 ? "0" : format_seconds(i * step), "soft",
           i == 0   ? ""
           : at_end ? " text-anchor=\"end\""
                    : " text-anchor=\"middle\"");
    }
  }

  void bar(const Span& span) {
    const Look look = look_of(span);
    const auto index =
        static_cast<std::size_t>(std::find(looks_.begin(), looks_.end(), look) - looks_.begin());
    const double x = x_of(std::max(span.start_ns, window_.start_ns));
    const double end = x_of(std::min(span.end_ns, window_.end_ns));
    const double width = std::max(end - x - (end - x > 3 ? 1 : 0), 0.5);
    const double height = look.wait ? wait_height : bar_height;
    const double y = top_ + lane_height * span.device + (bar_height - height) / 2;
    rectangle(x, y, width, height, fill_of(look, index));
    if (look.wait) {
      if (width > 4) rectangle(x, y, width, height, "url(#hatch)");
      return;
    }
    std::string label = fmt::format("{} {}", words(look.name), span.step);
    if (text_width(label) + 10 > width) label = words(look.name);
    if (text_width(label) + 10 > width) return;
    text(x + 6, y + height / 2 + 4, label, "bar",
         fmt::format(" style=\"fill:var(--on-{})\"", index % stage_colours));
  }

  double legend() {
    double x = left_, y = legend_top_;
    for (std::size_t i = 0; i < looks_.size(); ++i) {
      const std::string label = (looks_[i].wait ? "idle: " : "") + words(looks_[i].name);
      if (x + text_width(label) + 20 > right() && x > left_) {
        x = left_;
        y += legend_row;
      }
      rectangle(x, y - 10, 12, 12, fill_of(looks_[i], i));
      if (looks_[i].wait) rectangle(x, y - 10, 12, 12, "url(#hatch)");
      text(x + 18, y, label, "soft");
      x += text_width(label) + 40;
    }
    return y + 8;
  }

  const TraceHeader& header_;
  SvgOptions options_;
  TimeWindow window_;
  std::vector<Span> spans_;  // those that reach into the window
  std::vector<Look> looks_;
  double left_ = 0, top_ = 0, legend_top_ = 0;
  std::string body_;
};

}  // namespace

std::string timeline_svg(const TraceHeader& header, const std::vector<Span>& spans,
                         const SvgOptions& options) {
  for (const Span& span : spans) {
    if (span.device >= header.devices.size()) {
      fail(ErrorCode::internal, "timeline_svg: a span names device {} of {}", span.device,
           header.devices.size());
    }
  }
  return Picture(header, sorted_by_start(spans), options).draw();
}

}  // namespace headrace
