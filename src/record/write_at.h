// Writing at a place that the caller keeps, for files that grow. Layer: record.
#pragma once

#include <cstdint>
#include <string_view>

namespace headrace {

// Writes all of `text` at `offset`, also where signals arrive or the system writes a part at a time.
// False where it refuses; errno says why, and a part may stand in the file.
bool write_at(int file, std::string_view text, std::uint64_t offset);

}  // namespace headrace
