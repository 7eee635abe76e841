// How the commands end: results on stdout, one message on stderr, and the exit status: 0 done, 1
// failed while running, 2 wrong usage or unreadable input, 130 cancelled. Layer: cli.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <system_error>

#include "headrace/error.h"

namespace headrace {

// What a subcommand does once the command line has been read; returns the exit status.
using Action = std::function<int()>;

// The words of the subcommand that was read: "headrace predict".
inline std::string command_name(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return app.get_name() + (chosen.empty() ? "" : " " + command_name(*chosen.front()));
}

// A line on stderr. Where even that cannot be written there is nobody left to tell.
inline void complain(const CLI::App& app, const std::string& message) {
  std::fputs(fmt::format("{}: {}\n", app.get_name(), message).c_str(), stderr);
}

inline void hint(const CLI::App& app) {
  std::fputs(fmt::format("Try `{} --help`.\n", command_name(app)).c_str(), stderr);
}

// Runs `body`, which parses the command line and acts on it, and turns what it throws into a
// message and an exit status. Wrong usage: one line, and where to look.
inline int run_command(const CLI::App& app, const Action& body) {
  try {
    const int status = body();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      fail(ErrorCode::io, "cannot write to stdout");
    return status;
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    complain(app, error.what());
    hint(app);
    return 2;
  } catch (const Error& error) {
    complain(app, error.what());
    if (error.code() == ErrorCode::usage) hint(app);
    return error.exit_status();
  } catch (
      const std::system_error& error) {  // what fmt::print throws where stdout is full or closed
    complain(app, error.what());
    return 1;
  } catch (const std::exception& error) {
    complain(app, std::string("internal error: ") + error.what());
    return 1;
  }
}

}  // namespace headrace
