// The text of a trace: its head, one span after another, kTraceEnd. Each event brings the comma
// that separates it from the one before, so the text is a trace wherever it stops.
// Layer: record, private.
#pragma once

#include <string>
#include <string_view>

#include "headrace/record.h"

namespace headrace {

constexpr std::string_view kTraceEnd = "\n]\n";

// A string in JSON. Bytes that are not UTF-8 are replaced, so that every viewer opens the file.
std::string quoted(const std::string& text);

// The header's event and what viewers show beside each lane.
std::string trace_head(const TraceHeader& header);

// The number of dropped spans can be written over in place: `digits` at `offset` of the head.
struct DroppedField {
  std::size_t offset;
  std::string digits;
};
DroppedField dropped_field(std::string_view head, std::uint64_t dropped);

void append_span(std::string& text, const TraceHeader& header, const Span& span);

}  // namespace headrace
