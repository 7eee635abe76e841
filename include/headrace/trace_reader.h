// Reads Headrace's own traces (record.h) back. Layer: trace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headrace/record.h"

namespace headrace {

struct Trace {
  TraceHeader header;
  std::vector<Span> spans;  // in the file's order
  bool cut_off = false;     // the file ends before its closing bracket: its last events are missing
};

// Gives back what write_trace was given. A file that was cut off anywhere after the header's line
// gives the events that are whole. Error(bad_input) "FILE:LINE: what, value" for a trace of another
// program or schema, a damaged line, an unknown kind or cause, a device that the header has not.
Trace read_trace(const std::string& path);
Trace parse_trace(std::string_view text, const std::string& name_for_messages);

}  // namespace headrace
