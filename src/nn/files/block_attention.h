// Attention of draft blocks over [context strictly before the anchor ; own block], with RMS norm of
// the heads and rotary embedding (halves) of q and k inside: forward and backward on the CPU,
// without libtorch.
//
// Only what the mask lets a block see is visited. Context i stands at position i, slot k at anchor
// + k. One call does one sequence and one key/value head with its group of query heads, so calls
// may run on any thread in any order: they write disjoint columns, and the bits depend on nothing
// else.
#pragma once

#include <cstdint>

#include "nn/files/cpu_kernels_backward.h"

namespace headrace {

struct BlockAttentionShape {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, block = 0;
  double norm_eps = 0;
  std::int64_t group() const { return heads / kv_heads; }
};

// One sequence: `context` keys from position 0 on, and blocks with their anchors, 0 <= anchor <=
// context.
struct BlockAttentionRow {
  std::int64_t context = 0, blocks = 0;
  const std::int64_t* anchors = nullptr;
};

// Rows of one sequence. q, out: [blocks * block, heads * head_dim]; block k, v the same with
// kv_heads; context k, v: [context, kv_heads * head_dim]. Before norm and rotation, all of them.
template <typename T>
struct BlockAttentionInputs {
  const T *q, *context_k, *context_v, *block_k, *block_v;
  const T *q_norm, *k_norm;     // [head_dim]
  const Wide<T>*cosine, *sine;  // [positions, head_dim / 2]
};

template <typename T>
struct BlockAttentionGradients {
  T *q, *context_k, *context_v, *block_k, *block_v;  // overwritten
  Wide<T>*q_norm, *k_norm;                           // [head_dim], added to
};

// log_sums [blocks * block, heads]: log of the sum of exponentials, for the backward pass; may be
// null.
template <typename T>
void block_attention(const BlockAttentionShape& shape, const BlockAttentionRow& row,
                     const BlockAttentionInputs<T>& inputs, std::int64_t kv_head, T* out,
                     Wide<T>* log_sums);

template <typename T>
void block_attention_backward(const BlockAttentionShape& shape, const BlockAttentionRow& row,
                              const BlockAttentionInputs<T>& inputs, std::int64_t kv_head,
                              const Wide<T>* log_sums, const T* dout,
                              const BlockAttentionGradients<T>& gradients);

// cos and sin of position * base^(-2i/head_dim), [positions, head_dim / 2], for `inputs`.
template <typename A>
void rotation_tables(double base, std::int64_t positions, std::int64_t head_dim, A* cosine,
                     A* sine);

}  // namespace headrace
