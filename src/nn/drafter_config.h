// Sizes of a DFlash drafter. No libtorch here.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/llama_shape.h"

namespace headrace {

struct DrafterConfig {
  LlamaShape target;  // the drafter shares its sizes
  std::int64_t layers = 2;
  std::int64_t block = 8;          // slot 0 is the anchor, slots 1..block-1 are predicted
  std::vector<std::int64_t> taps;  // target layer ids
  std::int64_t mask_token = 16;
};

}  // namespace headrace
