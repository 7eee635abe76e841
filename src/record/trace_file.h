// A trace on disk that grows by whole lines and is valid at every moment. Layer: record, private.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headrace/record.h"

namespace headrace {

// Not thread-safe. The methods that return bool do all or nothing: false where the system refuses,
// which problem() then tells, and the caller may try again.
class TraceFile {
 public:
  // The head is there at once, in place of what was at `path`. Error(io) where that cannot be.
  TraceFile(const std::string& path, const TraceHeader& header);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  bool append(const std::vector<Span>& spans);
  bool set_dropped(std::uint64_t dropped);
  bool end();  // the closing bracket, and all of it to the disk
  const std::string& problem() const { return problem_; }

 private:
  bool append(std::string_view text);
  bool refused();

  const TraceHeader header_;
  const std::string head_;
  int file_ = -1;
  std::size_t size_ = 0;
  std::string problem_;
};

}  // namespace headrace
