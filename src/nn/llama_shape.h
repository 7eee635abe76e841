// Sizes of a llama model, from a GGUF file's metadata. Layer: nn (no libtorch).
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/gguf.h"

namespace headrace {

struct LlamaShape {
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0,
               context = 0;
  double rope_base = 10000, norm_eps = 1e-5;
};

// Error(bad_input) for an architecture other than llama (by name), a missing key, or sizes that do
// not fit together.
LlamaShape llama_shape(const GgufFile& file);

// The target layers whose outputs feed the drafter (0-based ids; the tap is the output of layer
// id): one tap n/2, else round(1 + i (n - 4) / (count - 1)), half to even (z-lab/dflash,
// dflash/model.py @44947fbf).
std::vector<std::int64_t> tap_layers(std::int64_t layers, std::int64_t count);

}  // namespace headrace
