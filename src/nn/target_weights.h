// What a target holds once loaded. Private to the target's files.
#pragma once

#include <vector>

#include "nn/target.h"

namespace headrace {

struct LayerWeights {
  // [out, in], contiguous.
  torch::Tensor qkv;  // queries, keys, values side by side; q and k in the order of halves
  torch::Tensor out;
  torch::Tensor gate_up;  // gate, up side by side
  torch::Tensor down;
  std::vector<float> attention_norm, ffn_norm;
};

struct TargetWeights {
  LlamaShape shape;
  Precision precision = Precision::fp32;
  torch::Tensor embedding, head;  // the same storage where tied
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;

  torch::ScalarType dtype() const {
    return precision == Precision::bf16 ? torch::kBFloat16 : torch::kFloat32;
  }
};

}  // namespace headrace
