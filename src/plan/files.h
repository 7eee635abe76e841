// Whole files, from begin to end. (Written: headrace/atomic_file.h.) Layer: plan.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace headrace {

// Error(bad_input) where the path cannot be opened or is neither a regular file nor a pipe,
// Error(io) where the system fails to read what it opened.
void read_pieces(const std::string& path, const std::function<void(std::string_view)>& use);
std::string read_file(const std::string& path);

}  // namespace headrace
