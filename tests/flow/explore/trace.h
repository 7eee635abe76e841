// What the threads of an explored run did, as a list to read.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "flow/explore/strategy.h"

namespace headrace::explore {

class Trace {
 public:
  struct Line {
    Actor actor;
    const char* what;
    std::uint32_t object;  // 0: none. Numbered in the order of construction
    std::uint64_t value;
    std::source_location where;
  };

  void add(const Line& line) { lines_.push_back(line); }

  // "  12  receiver    load #7 = 1          ring.h:96"
  std::string text(const std::vector<std::string>& names) const {
    std::string text;
    std::size_t number = 0;
    for (const Line& line : lines_) {
      if (number >= kShown && number + kShown < lines_.size()) {
        if (number++ == kShown) text += "   ...\n";
        continue;
      }
      const bool buffer = line.actor >= kThreads;
      std::string what = buffer ? "its store becomes visible:" : line.what;
      if (line.object != 0) what += fmt::format(" #{}", line.object);
      what += fmt::format(" = {}", line.value);
      text += fmt::format("{:4}  {:<12} {:<40} {}\n", ++number,
                          names.at(buffer ? line.actor - kThreads : line.actor), what, place(line));
    }
    return text;
  }

 private:
  static constexpr std::size_t kShown = 100;  // at the beginning, and at the end

  static std::string place(const Line& line) {
    if (line.where.line() == 0) return "";
    const std::string_view path = line.where.file_name();
    return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), line.where.line());
  }

  std::vector<Line> lines_;
};

}  // namespace headrace::explore
