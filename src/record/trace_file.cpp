#include "record/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "headrace/atomic_file.h"
#include "headrace/error.h"
#include "record/trace_format.h"
#include "record/write_at.h"

namespace headrace {

TraceFile::TraceFile(const std::string& path, const TraceHeader& header)
    : header_(header), head_(trace_head(header)), size_(head_.size()) {
  write_file_atomically(path, head_);
  file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file_ < 0) fail(ErrorCode::io, "{}: cannot open the file: {}", path, std::strerror(errno));
}

TraceFile::~TraceFile() {
  ::close(file_);
}

bool TraceFile::append(const std::vector<Span>& spans) {
  std::string text;
  for (const Span& span : spans) append_span(text, header_, span);
  return append(text);
}

bool TraceFile::append(std::string_view text) {
  if (!write_at(file_, text, size_)) return refused();
  size_ += text.size();
  return true;
}

bool TraceFile::set_dropped(std::uint64_t dropped) {
  const auto [offset, digits] = dropped_field(head_, dropped);
  return write_at(file_, digits, offset) || refused();
}

bool TraceFile::end() {
  return append(kTraceEnd) && (::fsync(file_) == 0 || refused());
}

// Half a line in the middle would be damage; at the end it only looks like a file that was cut off.
bool TraceFile::refused() {
  problem_ = std::strerror(errno);
  if (::ftruncate(file_, static_cast<off_t>(size_)) != 0)
    problem_ += "; the file ends in half a line";
  return false;
}

}  // namespace headrace
