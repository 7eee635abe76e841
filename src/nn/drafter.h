// The DFlash drafter (arXiv 2602.06036): a few Qwen3-style decoder layers, non-causal inside a
// block, whose keys and values come from the target's fused features (KV injection) and from the
// block itself.
#pragma once

#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "headrace/safetensors.h"
#include "nn/drafter_config.h"

namespace headrace {

// Trainable tensors by the reference's names: fc.weight [H, T*H], hidden_norm.weight, norm.weight,
// layers.N.self_attn.{q,k,v,o}_proj.weight, layers.N.self_attn.{q,k}_norm.weight,
// layers.N.mlp.{gate,up,down}_proj.weight, layers.N.{input,post_attention}_layernorm.weight.
// Sorted by name: the order of weights_sha256 and of the flat bucket.
using Parameters = std::map<std::string, torch::Tensor>;
// Name and shape of each.
std::map<std::string, std::vector<std::int64_t>> parameter_shapes(const DrafterConfig& config);
// Those of a checkpoint's model.safetensors, copied. Error(bad_input) for a tensor that is not F32.
Parameters parameters_of(const SafeTensorsFile& file);
// Copies in another dtype that require gradients: a replica's working weights.
Parameters trainable_copy(const Parameters& parameters, torch::ScalarType type);

// One step's blocks for the drafter.
struct DraftBatch {
  torch::Tensor features;     // [rows, length, T*H]
  torch::Tensor tokens;       // [rows, length] int64
  torch::Tensor row_lengths;  // [rows] int64
  torch::Tensor anchors;      // [rows, anchors] int64 ascending, -1: no block
};

// Context keys and values of one sequence while generating, before norm and rotation.
struct DraftCache {
  std::vector<torch::Tensor> keys, values;  // a layer: [capacity, kv_heads * head_dim]
  torch::Tensor cosine, sine;               // of the positions of capacity and one block
  std::int64_t length = 0;
  std::int64_t capacity() const { return keys.empty() ? 0 : keys[0].size(0); }
};

struct BlockRows;  // nn/drafter_ops.h

class Drafter {
 public:
  // `embedding` and `head` are the target's, frozen. Everything is computed in the parameters'
  // dtype (bfloat16, float or double); features, embedding and head are converted to it where they
  // differ. Parameters that require gradients are trained. Error(bad_input) names a tensor that is
  // missing or has another shape.
  Drafter(DrafterConfig config, Parameters parameters, torch::Tensor embedding, torch::Tensor head);

  // Start weights, fp32 (nn/drafter_start.cpp). Random: normal with std 0.02 * sqrt(4096 / H) as
  // the reference.
  static Parameters random_parameters(const DrafterConfig& config, std::uint64_t seed);
  // From the target's last layers (docs/recipe.md says what each choice is worth): learns faster
  // than a random start.
  static Parameters parameters_from_target(const DrafterConfig& config, const GgufFile& target);

  const DrafterConfig& config() const { return config_; }
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  torch::ScalarType dtype() const;

  // Hidden states of the blocks after the final norm: [rows, anchors, block, H]. A slot of a block
  // with anchor a sees the context strictly before a and its own block. Blocks with anchor -1 give
  // finite values that are to be ignored. Error(internal) for anchors that are not ascending within
  // the row, or not before its end.
  torch::Tensor forward(const DraftBatch& batch) const;
  // The tokens that forward's blocks propose: [rows, anchors, block - 1] int64, without gradients.
  torch::Tensor propose(const DraftBatch& batch) const;

  DraftCache make_cache(std::int64_t capacity) const;
  // Appends committed positions: features [n, T*H]. Error(internal) beyond the capacity.
  void extend(DraftCache& cache, const torch::Tensor& features) const;
  // Proposes block - 1 tokens after `bonus`, which stands at position cache.length: [block - 1]
  // int64, as propose() would with an anchor there.
  torch::Tensor draft(const DraftCache& cache, std::int64_t bonus) const;

 private:
  const torch::Tensor& weight(std::int64_t layer, const char* name) const;
  torch::Tensor fuse(const torch::Tensor& features) const;
  // Blocks of token ids through all layers. The context is fused features, or, where null, the
  // cache.
  torch::Tensor blocks(const torch::Tensor& tokens, const std::shared_ptr<const BlockRows>& rows,
                       const torch::Tensor* context, const DraftCache* cache) const;

  DrafterConfig config_;
  Parameters parameters_;
  torch::Tensor embedding_, head_;
};

}  // namespace headrace
