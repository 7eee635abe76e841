// The commands of headrace-train. Each adds itself to the command line and returns what to do where
// it is chosen.
#pragma once

#include "cli/exit.h"

namespace headrace {

Action add_dflash(CLI::App& train);
Action add_generate(CLI::App& app);
Action add_model(CLI::App& app);

}  // namespace headrace
