// The one error type of Headrace. Layer: plan.
//
// A message names what went wrong, where (file, line, key, stage), the value found, and the fix.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace headrace {

enum class ErrorCode {
  usage,      // a wrong flag or combination of flags
  bad_input,  // a file, plan, model, checkpoint or trace that cannot be used
  io,         // the operating system refused: disk full, permission
  resource,   // not enough memory, cores or devices for what was asked
  cancelled,  // stopped by a signal or by the caller
  hang,       // the watchdog saw no progress
  internal,   // a bug in Headrace
};

const char* to_string(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  ErrorCode code() const { return code_; }

  // Exit status of the command: 2 for wrong usage or unreadable input, 130 when cancelled, else 1.
  int exit_status() const {
    if (code_ == ErrorCode::usage || code_ == ErrorCode::bad_input) return 2;
    return code_ == ErrorCode::cancelled ? 130 : 1;
  }

  // The same error seen from further out: "stage drafter, replica 1, step 7: <message>".
  Error in(const std::string& context) const { return Error(code_, context + ": " + what()); }

 private:
  ErrorCode code_;
};

// The exception that is being handled (call it in a catch block) as an Error seen from `context`.
// std::bad_alloc becomes `resource`, everything that is no Error `internal`.
Error caught(const std::string& context);

template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace headrace
