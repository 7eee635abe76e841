// weights_sha256: one digest of all trainable weights. No libtorch here.
#pragma once

#include <span>
#include <string>

#include "train/flat_layout.h"

namespace headrace {

// SHA-256 over the tensors in the order of their names; of each: name, a line feed, "F32 [d0, d1]",
// a line feed, and the little-endian bytes of its fp32 master weights. 64 hex digits.
std::string weights_sha256(const FlatLayout& layout, std::span<const float> weights);

}  // namespace headrace
