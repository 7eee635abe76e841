// `--config FILE`: any switch of a command as YAML, in front of the switches on the command line,
// which win.
#pragma once

#include <string>
#include <vector>

namespace headrace {

// The arguments after the subcommand's name, with each `--config FILE` replaced by the switches
// that the file holds. Error(bad_input) names the file and the key.
std::vector<std::string> expand_config(const std::vector<std::string>& arguments);

}  // namespace headrace
