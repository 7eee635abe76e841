// Which bytes are UTF-8 (Unicode 15, table 3-7).
#pragma once

#include <cstdint>
#include <string_view>

namespace headrace {

// Bytes that belong to no well-formed character.
std::uint64_t invalid_utf8_bytes(std::string_view bytes);

// The length of `bytes` without a character that its end cuts off; never 0 for bytes that are not
// empty.
std::size_t whole_characters(std::string_view bytes);

}  // namespace headrace
