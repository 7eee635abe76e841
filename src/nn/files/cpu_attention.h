// Causal attention over whole rows for CPUs with bf16 dot products, without libtorch: scores and
// sums in fp32, nothing computed above the diagonal but the rest of a block. On rows of 256 tokens
// several times as fast as libtorch's.
#pragma once

#include <cstdint>

#include "nn/files/cpu_kernels.h"

namespace headrace {

// Whether this CPU multiplies pairs of bf16 (AVX512-BF16; every CPU with AMX has it too).
bool has_bf16_dot();

struct AttentionShape {
  std::int64_t length = 0, heads = 0, kv_heads = 0;
  std::int64_t head_dim = 0;  // a multiple of 16
};

// The heads that share one key and value head, for one row. `qkv` [length, (heads + 2 kv_heads) *
// head_dim] holds queries, keys and values after RoPE; `out` is [length, heads * head_dim], of
// which only the columns of these heads are written. Needs has_bf16_dot().
void causal_attention(const Bf16* qkv, const AttentionShape& shape, std::int64_t kv_head,
                      Bf16* out);

}  // namespace headrace
