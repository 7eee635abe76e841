// The drafter's fused operations with gradients, over the kernels of nn/files. Tensors are
// contiguous, of one dtype: bfloat16, float or double. Results are the same bits for any number of
// threads.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "headrace/error.h"
#include "nn/files/block_attention.h"

namespace headrace {

// Calls f with a value of the kernels' type for a dtype.
template <typename F>
void with_storage(torch::ScalarType type, const F& f) {
  switch (type) {
    case torch::kBFloat16:
      return f(Bf16{});
    case torch::kFloat32:
      return f(float{});
    case torch::kFloat64:
      return f(double{});
    default:
      fail(ErrorCode::internal, "the drafter computes in bfloat16, float or double, not in {}",
           c10::toString(type));
  }
}

// {x + delta, its RMS norm}; delta may be undefined. x, delta: [rows, width].
std::pair<torch::Tensor, torch::Tensor> add_rms_norm(const torch::Tensor& x,
                                                     const torch::Tensor& delta,
                                                     const torch::Tensor& weight, double eps);

// silu(gate) * up.
torch::Tensor silu_mul(const torch::Tensor& gate, const torch::Tensor& up);

// The blocks of a batch without its padding: sequences one after the other, each with its context
// [0, last anchor) and its valid blocks.
struct BlockRows {
  struct Sequence {
    std::int64_t context_begin = 0, context = 0, block_begin = 0,
                 blocks = 0;  // in context rows, in blocks
  };
  std::vector<Sequence> sequences;
  std::vector<std::int64_t> anchors;  // a block
  torch::Tensor cosine, sine;         // rotation_tables
};

// nn/files/block_attention.h over all sequences and heads. q: [blocks * block, heads * head_dim]; k
// and v of the context rows and of the blocks' rows.
torch::Tensor block_attention(const BlockAttentionShape& shape,
                              const std::shared_ptr<const BlockRows>& rows, const torch::Tensor& q,
                              const torch::Tensor& context_k, const torch::Tensor& context_v,
                              const torch::Tensor& block_k, const torch::Tensor& block_v,
                              const torch::Tensor& q_norm, const torch::Tensor& k_norm);

// argmax over the vocabulary of head . hidden: hidden [n, H], head [V, H] to [n] int64. Logits
// exist in chunks only, and near-ties of rounded logits are decided exactly
// (nn/files/cross_entropy.h).
torch::Tensor head_argmax(const torch::Tensor& hidden, const torch::Tensor& head);

}  // namespace headrace
