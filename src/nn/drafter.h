// The DFlash drafter (arXiv 2602.06036): a few Qwen3-style decoder layers, non-causal inside a block, whose keys
// and values come from the target's fused features (KV injection) and from the block itself.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "nn/drafter_config.h"

namespace headrace {

// Trainable tensors by the reference's names: fc.weight [H, T*H], hidden_norm.weight, norm.weight,
// layers.N.self_attn.{q,k,v,o}_proj.weight, layers.N.self_attn.{q,k}_norm.weight,
// layers.N.mlp.{gate,up,down}_proj.weight, layers.N.{input,post_attention}_layernorm.weight.
// Sorted by name: the order of weights_sha256 and of the flat bucket.
using Parameters = std::map<std::string, torch::Tensor>;

// One step's blocks for the drafter.
struct DraftBatch {
  torch::Tensor features;     // [rows, length, T*H]
  torch::Tensor tokens;       // [rows, length] int64
  torch::Tensor row_lengths;  // [rows] int64
  torch::Tensor anchors;      // [rows, anchors] int64 ascending, -1: no block
};

// Context keys and values of one sequence while generating.
struct DraftCache {
  std::vector<torch::Tensor> keys, values;  // a layer: [kv_heads, capacity, head_dim]
  std::int64_t length = 0;
};

class Drafter {
 public:
  // Parameters in `dtype`; `embedding` and `head` are the target's, frozen.
  Drafter(DrafterConfig config, Parameters parameters, torch::Tensor embedding, torch::Tensor head);

  // Start weights. from_target: layers copied from the target's last ones, fc the identity on the last tap
  // (reference/dflash: learns faster than a random start); random: normal with std 0.02 * sqrt(4096 / H) as the reference.
  static Parameters random_parameters(const DrafterConfig& config, std::uint64_t seed);
  static Parameters parameters_from_target(const DrafterConfig& config, const GgufFile& target, std::uint64_t seed);

  const DrafterConfig& config() const { return config_; }
  Parameters& parameters() { return parameters_; }

  // Hidden states of the blocks after the final norm: [rows, anchors, block, H]. A slot of a block with anchor a
  // sees the context strictly before a and its own block. Blocks with anchor -1 give finite values that are to be ignored.
  torch::Tensor forward(const DraftBatch& batch) const;

  DraftCache make_cache(std::int64_t capacity) const;
  // Appends the fused features of committed positions: features [n, T*H].
  void extend(DraftCache& cache, const torch::Tensor& features) const;
  // Proposes block - 1 tokens after `bonus`, which stands at position cache.length: [block - 1] int64.
  torch::Tensor draft(const DraftCache& cache, std::int64_t bonus) const;

 private:
  DrafterConfig config_;
  Parameters parameters_;
  torch::Tensor embedding_, head_;
};

}  // namespace headrace
