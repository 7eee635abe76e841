#include "record/trace_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>

namespace headrace {
namespace {

// As wide for every count, with the blanks that JSON allows.
std::string dropped_digits(std::uint64_t dropped) {
  return fmt::format("{:<20}", dropped);
}

struct Microseconds {
  std::int64_t ns;
};

std::string lane_events(std::size_t lane, const std::string& name) {
  return fmt::format(
      ",\n"
      R"({{"name":"thread_name","ph":"M","pid":0,"tid":{0},"args":{{"name":{1}}}}})"
      ",\n"
      R"({{"name":"thread_sort_index","ph":"M","pid":0,"tid":{0},"args":{{"sort_index":{0}}}}})",
      lane, quoted(name));
}

}  // namespace
}  // namespace headrace

// Chrome's `ts` and `dur` are microseconds; three decimals keep the nanoseconds.
template <>
struct fmt::formatter<headrace::Microseconds> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(headrace::Microseconds time, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{}{}.{:03}", time.ns < 0 ? "-" : "",
                          std::abs(time.ns) / 1000, std::abs(time.ns) % 1000);
  }
};

namespace headrace {

std::string quoted(const std::string& text) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::all_of(text.begin(), text.end(), plain)) return fmt::format("\"{}\"", text);
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string trace_head(const TraceHeader& header) {
  std::string devices;
  for (const std::string& device : header.devices)
    devices += (devices.empty() ? "" : ",") + quoted(device);
  std::string head = fmt::format(
      "[\n"
      R"({{"name":"headrace","ph":"M","pid":0,"tid":0,"args":{{"schema":{},"schedule":{},)"
      R"("plan_hash":{},"devices":[{}],"host_threads":{},"dropped":{}}}}})"
      ",\n"
      R"({{"name":"process_name","ph":"M","pid":0,"tid":0,"args":{{"name":"rank 0"}}}})",
      quoted(header.schema), quoted(header.schedule), quoted(header.plan_hash), devices,
      header.host_threads, dropped_digits(header.dropped));
  for (std::size_t lane = 0; lane < header.devices.size(); ++lane)
    head += lane_events(lane, header.devices[lane]);
  return head;
}

DroppedField dropped_field(std::string_view head, std::uint64_t dropped) {
  // The header's own strings cannot hold the key: their quotation marks are escaped.
  constexpr std::string_view key = "\"dropped\":";
  return {head.find(key) + key.size(), dropped_digits(dropped)};
}

void append_span(std::string& text, const TraceHeader& header, const Span& span) {
  const std::int64_t duration = span.end_ns - span.start_ns;
  fmt::format_to(
      std::back_inserter(text),
      ",\n"
      R"({{"name":{},"cat":"{}","ph":"X","ts":{},"dur":{},"pid":0,"tid":{},"args":{{"device":{},)"
      R"("stage":{},"replica":{},"step":{},"sequence":{},"channel":{},"cause":{},"t_ns":{},"dur_ns":{}}}}})",
      quoted(span.kind == SpanKind::wait ? span.cause : span.stage), to_string(span.kind),
      Microseconds{span.start_ns}, Microseconds{duration}, span.device,
      quoted(header.devices.at(span.device)), quoted(span.stage), span.replica, span.step,
      span.sequence, quoted(span.channel), quoted(span.cause), span.start_ns, duration);
}

}  // namespace headrace
