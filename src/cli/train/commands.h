// The commands of headrace-train. Each adds itself to the parser and, where it was chosen, sets the action to run.
#pragma once

#include <cstdint>
#include <string>

#include "cli/exit.h"

namespace headrace {

void add_dflash(CLI::App& train, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_model(CLI::App& app, Action& action);

}  // namespace headrace
