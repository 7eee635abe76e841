#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "headrace/atomic_file.h"
#include "headrace/record.h"

namespace headrace {
namespace {

// As a JSON string; bytes that are not UTF-8 are replaced, so that every viewer opens the file.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Chrome's `ts` and `dur` are microseconds; three decimals keep the nanoseconds.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

std::string header_event(const TraceHeader& header) {
  std::string devices;
  for (const std::string& device : header.devices)
    devices += (devices.empty() ? "" : ",") + quoted(device);
  return fmt::format(
      R"({{"name":"headrace","ph":"M","pid":0,"tid":0,"args":{{"schema":{},"schedule":{},)"
      R"("plan_hash":{},"devices":[{}],"host_threads":{},"dropped":{}}}}})",
      quoted(header.schema), quoted(header.schedule), quoted(header.plan_hash), devices,
      header.host_threads, header.dropped);
}

// What viewers show beside a lane, and in which order.
std::string lane_events(std::size_t lane, const std::string& name) {
  return fmt::format(
      ",\n"
      R"({{"name":"thread_name","ph":"M","pid":0,"tid":{0},"args":{{"name":{1}}}}})"
      ",\n"
      R"({{"name":"thread_sort_index","ph":"M","pid":0,"tid":{0},"args":{{"sort_index":{0}}}}})",
      lane, quoted(name));
}

std::string span_event(const TraceHeader& header, const Span& span) {
  const std::int64_t duration = span.end_ns - span.start_ns;
  return fmt::format(
      ",\n"
      R"({{"name":{},"cat":"{}","ph":"X","ts":{},"dur":{},"pid":0,"tid":{},"args":{{"device":{},)"
      R"("stage":{},"replica":{},"step":{},"sequence":{},"channel":{},"cause":{},"t_ns":{},"dur_ns":{}}}}})",
      quoted(span.kind == SpanKind::wait ? span.cause : span.stage), to_string(span.kind),
      microseconds(span.start_ns), microseconds(duration), span.device,
      quoted(header.devices.at(span.device)), quoted(span.stage), span.replica, span.step,
      span.sequence, quoted(span.channel), quoted(span.cause), span.start_ns, duration);
}

}  // namespace

void write_trace(const std::string& path, const TraceHeader& header,
                 const std::vector<Span>& spans) {
  AtomicFile file(path);
  file.write("[\n" + header_event(header));
  file.write(
      ",\n"
      R"({"name":"process_name","ph":"M","pid":0,"tid":0,"args":{"name":"rank 0"}})");
  for (std::size_t lane = 0; lane < header.devices.size(); ++lane)
    file.write(lane_events(lane, header.devices[lane]));
  for (const Span& span : spans) file.write(span_event(header, span));
  file.write("\n]\n");
  file.commit();
}

}  // namespace headrace
