// The subcommands of `headrace`, one file each. Each adds itself to the command line and returns
// what to do where it is chosen. Layer: cli.
#pragma once

#include "cli/exit.h"

namespace headrace {

Action add_analyze(CLI::App& app);
Action add_predict(CLI::App& app);
Action add_doctor(CLI::App& app);

}  // namespace headrace
