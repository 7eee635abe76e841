#include "headrace/atomic_file.h"
#include "headrace/record.h"
#include "record/trace_format.h"

namespace headrace {

void write_trace(const std::string& path, const TraceHeader& header,
                 const std::vector<Span>& spans) {
  AtomicFile file(path);
  file.write(trace_head(header));
  std::string line;
  for (const Span& span : spans) {
    line.clear();
    append_span(line, header, span);
    file.write(line);
  }
  file.write(kTraceEnd);
  file.commit();
}

}  // namespace headrace
