#include "train/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "headrace/quantity.h"

namespace headrace {

using Clock = std::chrono::steady_clock;

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0), start_(Clock::now()) {}

ProgressLine::~ProgressLine() {
  clear();
}

void ProgressLine::update(std::uint64_t done, std::uint64_t total, const std::string& note) {
  const auto now = Clock::now();
  if (!terminal_ || (drawn_ && done != total && now - last_ < std::chrono::milliseconds(100)))
    return;
  last_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string line =
      total > 0 ? fmt::format("{} {}/{}", what_, done, total) : fmt::format("{} {}", what_, done);
  if (rate > 0) line += fmt::format("  {:.2f}/s", rate);
  if (rate > 0 && total > done)
    line += fmt::format("  {:.0f} s left", static_cast<double>(total - done) / rate);
  if (!note.empty()) line += "  " + note;
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace headrace
