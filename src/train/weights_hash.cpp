#include "train/weights_hash.h"

#include <fmt/ranges.h>

#include <bit>

#include "headrace/error.h"
#include "headrace/sha256.h"

namespace headrace {

std::string weights_sha256(const FlatLayout& layout, std::span<const float> weights) {
  static_assert(std::endian::native == std::endian::little);
  if (weights.size() != layout.elements)
    fail(ErrorCode::internal, "{} weights for {} parameters", weights.size(), layout.elements);
  Sha256 sha;
  for (const auto& entry : layout.entries) {
    sha.update(fmt::format("{}\nF32 [{}]\n", entry.name, fmt::join(entry.shape, ", ")));
    sha.update(std::as_bytes(weights.subspan(entry.offset, entry.elements)));
  }
  return sha.hex();
}

}  // namespace headrace
