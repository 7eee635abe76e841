// Whole files, read at once. (Written: headrace/atomic_file.h.) Layer: plan.
#pragma once

#include <string>

namespace headrace {

// The bytes of a regular file. Error(bad_input) where it is absent or a folder, Error(io)
// otherwise.
std::string read_file(const std::string& path);

}  // namespace headrace
