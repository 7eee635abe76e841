// How the commands end: results on stdout, one message on stderr, and the exit status: 0 done, 1 failed
// while running, 2 wrong usage or unreadable input, 130 cancelled. Layer: cli.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "headrace/error.h"

namespace headrace {

// What a subcommand does once the command line has been read; returns the exit status.
using Action = std::function<int()>;

// The words of the subcommand that was read: "headrace predict".
inline std::string command_name(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return app.get_name() + (chosen.empty() ? "" : " " + command_name(*chosen.front()));
}

// Runs `body`, which parses the command line and acts on it, and turns what it throws into a message and
// an exit status. Wrong usage: one line, and where to look.
inline int run_command(const CLI::App& app, const Action& body) {
  try {
    const int status = body();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      fail(ErrorCode::io, "cannot write to stdout");
    return status;
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}: {}\nTry `{} --help`.\n", app.get_name(), error.what(), command_name(app));
    return 2;
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
    if (error.code() == ErrorCode::usage) fmt::print(stderr, "Try `{} --help`.\n", command_name(app));
    return error.exit_status();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: internal error: {}\n", app.get_name(), error.what());
    return 1;
  }
}

}  // namespace headrace
