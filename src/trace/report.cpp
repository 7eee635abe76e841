#include "headrace/report.h"

#include <map>
#include <string_view>

#include "trace/report_parts.h"

namespace headrace {

// Every {{name}} of the template gives way to its text; what is put in is not looked at again.
std::string report_html(const Report& report) {
  const std::string data = report_json(report);
  const std::map<std::string_view, std::string_view> parts = {
      {"palette", report_files::palette_css},  {"style", report_files::report_css},
      {"timeline", report_files::timeline_js}, {"chart", report_files::chart_js},
      {"page", report_files::report_js},       {"data", data},
  };
  std::string html;
  std::string_view rest = report_files::report_html;
  for (std::size_t open; (open = rest.find("{{")) != rest.npos;) {
    const std::size_t close = rest.find("}}", open);
    html += rest.substr(0, open);
    html += parts.at(rest.substr(open + 2, close - open - 2));
    rest.remove_prefix(close + 2);
  }
  html += rest;
  return html;
}

}  // namespace headrace
