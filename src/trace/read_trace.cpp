#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "headrace/error.h"
#include "headrace/trace_reader.h"
#include "plan/files.h"

namespace headrace {
namespace {

using simdjson::dom::element;

constexpr std::array kKinds = {SpanKind::work, SpanKind::wait, SpanKind::copy, SpanKind::sync};
constexpr std::array<std::string_view, 6> kCauses = {"starved", "back_pressured", "synchronising",
                                                     "host",    "startup",        "tail"};

// Some 36 years either way; differences of two such times still fit.
constexpr std::int64_t kMaxNs = std::int64_t{1} << 60;

// The writer puts one event on a line, so a line is a JSON document of its own, and a damaged or
// cut one costs nothing but itself.
class TraceParser {
 public:
  TraceParser(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  Trace parse() {
    while (!rest_.empty()) {
      const std::string_view line = next_line();
      if (line.empty() || line == "[") continue;
      if (line == "]") return finish(false);
      element event;
      if (parser_.parse(simdjson::padded_string(line)).get(event) != simdjson::SUCCESS) {
        if (rest_.empty()) break;  // the file was cut in the middle of this line
        if (!has_header_) not_ours();
        refuse("not an event in JSON", line.substr(0, 60));
      }
      read_event(event);
    }
    return finish(true);
  }

 private:
  // Without blanks around it and without the comma behind it.
  std::string_view next_line() {
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++line_;
    while (!line.empty() && std::strchr(" \t\r,", line.back()) != nullptr) line.remove_suffix(1);
    while (!line.empty() && std::strchr(" \t", line.front()) != nullptr) line.remove_prefix(1);
    return line;
  }

  void read_event(const element& event) {
    if (has_header_) {
      if (text(event, "ph") == "X") read_span(event);
      return;
    }
    std::string_view name;
    if (event["name"].get(name) != simdjson::SUCCESS || name != "headrace") not_ours();
    read_header(member(event, "args"));
  }

  void read_header(const element& args) {
    TraceHeader& header = trace_.header;
    if (text(args, "schema") != header.schema)
      refuse(fmt::format("schema is not {}", header.schema), text(args, "schema"));
    header.schedule = text(args, "schedule");
    header.plan_hash = text(args, "plan_hash");
    header.host_threads = count(args, "host_threads");
    header.dropped = count(args, "dropped");
    simdjson::dom::array devices;
    if (args["devices"].get(devices) != simdjson::SUCCESS) refuse("no list", "devices");
    for (const element device : devices) {
      std::string_view device_name;
      if (device.get(device_name) != simdjson::SUCCESS) refuse("not a name", "devices");
      header.devices.emplace_back(device_name);
    }
    if (header.host_threads > header.devices.size())
      refuse("more host threads than devices", std::to_string(header.host_threads));
    has_header_ = true;
  }

  void read_span(const element& event) {
    const element args = member(event, "args");
    Span span;
    span.kind = kind(text(event, "cat"));
    span.start_ns = number(args, "t_ns");
    const std::int64_t duration = number(args, "dur_ns");
    if (span.start_ns < -kMaxNs || span.start_ns > kMaxNs)
      refuse("t_ns is out of range", std::to_string(span.start_ns));
    if (duration < 0 || duration > kMaxNs)
      refuse("dur_ns is out of range", std::to_string(duration));
    span.end_ns = span.start_ns + duration;
    const std::uint64_t device = count(event, "tid");
    if (device >= trace_.header.devices.size())
      refuse("tid is no index into the header's devices", std::to_string(device));
    span.device = static_cast<std::uint32_t>(device);
    span.stage = text(args, "stage");
    span.replica = count(args, "replica");
    span.step = count(args, "step");
    span.sequence = count(args, "sequence");
    span.channel = text(args, "channel");
    span.cause = text(args, "cause");
    const bool known = std::find(kCauses.begin(), kCauses.end(), span.cause) != kCauses.end();
    if (span.kind == SpanKind::wait ? !known : !span.cause.empty())
      refuse(fmt::format("not a cause of {}", to_string(span.kind)), span.cause);
    trace_.spans.push_back(std::move(span));
  }

  SpanKind kind(std::string_view category) const {
    for (const SpanKind kind : kKinds)
      if (category == to_string(kind)) return kind;
    refuse("cat is none of work, wait, copy, sync", category);
  }

  element member(const element& object, const char* key) const {
    element value;
    if (object[key].get(value) != simdjson::SUCCESS) refuse("missing key", key);
    return value;
  }
  std::string_view text(const element& object, const char* key) const {
    std::string_view value;
    if (object[key].get(value) != simdjson::SUCCESS) refuse("missing or no text", key);
    return value;
  }
  std::uint64_t count(const element& object, const char* key) const {
    std::uint64_t value = 0;
    if (object[key].get(value) != simdjson::SUCCESS) refuse("missing or no count", key);
    return value;
  }
  std::int64_t number(const element& object, const char* key) const {
    std::int64_t value = 0;
    if (object[key].get(value) != simdjson::SUCCESS) refuse("missing or no integer", key);
    return value;
  }

  Trace finish(bool cut_off) {
    if (!has_header_) not_ours();
    trace_.cut_off = cut_off;
    return std::move(trace_);
  }

  [[noreturn]] void refuse(std::string_view what, std::string_view value) const {
    fail(ErrorCode::bad_input, "{}:{}: {}: {}", name_, line_, what, value);
  }
  [[noreturn]] void not_ours() const {
    fail(ErrorCode::bad_input,
         "{}: not a trace of Headrace: its first event is no header (only traces that `headrace "
         "train` "
         "writes are read)",
         name_);
  }

  std::string_view rest_;
  const std::string& name_;
  std::size_t line_ = 0;
  bool has_header_ = false;
  simdjson::dom::parser parser_;
  Trace trace_;
};

}  // namespace

Trace parse_trace(std::string_view text, const std::string& name_for_messages) {
  return TraceParser(text, name_for_messages).parse();
}

Trace read_trace(const std::string& path) {
  return parse_trace(read_file(path), path);
}

}  // namespace headrace
