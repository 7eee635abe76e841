// How many bytes the values of a tensor take. Layer: nn (no libtorch).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "headrace/gguf.h"

namespace headrace {

// Quantised types store blocks of 32 consecutive values of a row with their own scale.
struct GgmlBlock {
  std::uint64_t values, bytes;
};

GgmlBlock block_of(GgmlType type);
std::optional<GgmlType> supported_type(std::uint32_t raw);
// The name ggml gives a type, "type N" where it has none.
std::string type_name(std::uint32_t raw);

inline constexpr const char* kSupportedTypes = "F32, F16, BF16, Q4_0, Q4_1, Q8_0";

}  // namespace headrace
