// Whole files, read at once and replaced at once. Layer: plan.
#pragma once

#include <string>
#include <string_view>

namespace headrace {

// After a crash at any moment the path holds the old bytes or the new ones, never a part: they are written
// under a temporary name in the same folder, flushed, renamed, and the folder is flushed. A failure leaves
// no temporary file. Error(io) names the path and the reason of the operating system.
void write_file_atomically(const std::string& path, std::string_view bytes);

// The bytes of a regular file. Error(bad_input) where it is absent or a folder, Error(io) otherwise.
std::string read_file(const std::string& path);

}  // namespace headrace
