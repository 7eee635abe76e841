// One line of progress on a terminal: done, rate, remaining. Silent where stderr is none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace headrace {

class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  // `total` 0: unknown. `note` is appended, e.g. "loss 6.1". At most ten lines a second are drawn.
  void update(std::uint64_t done, std::uint64_t total, const std::string& note = "");
  void clear();

 private:
  std::string what_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace headrace
