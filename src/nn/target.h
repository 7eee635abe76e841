// The frozen target: a llama model from GGUF on libtorch. Thread-safe once loaded (const).
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

#include "nn/llama_shape.h"
#include "nn/precision.h"

namespace headrace {

// Keys and values of `batch` sequences; sequence b holds lengths[b] positions.
struct KvCache {
  std::vector<torch::Tensor> keys, values;  // a layer: [batch, kv_heads, capacity, head_dim]
  std::vector<std::int64_t> lengths;        // [batch]
  void crop(std::int64_t b, std::int64_t length) { lengths.at(b) = length; }
};

struct TargetOutput {
  torch::Tensor hidden;    // [batch, n, hidden] fp32, after the final norm
  torch::Tensor features;  // [batch, n, taps * hidden], in the order of `taps`; undefined where no
                           // taps were asked for
};

struct TargetWeights;  // private: nn/target_weights.h

class Target {
 public:
  // Dequantises into `precision`. `progress` (may be empty) is told the share done.
  static Target load(const GgufFile& file, Precision precision,
                     const std::function<void(double)>& progress = {});

  const LlamaShape& shape() const;
  Precision precision() const;
  torch::Tensor embedding()
      const;                   // [vocab, hidden] in the model's precision; also the head where tied
  torch::Tensor head() const;  // [vocab, hidden]

  // Whole rows without a cache, for training: tokens [rows, length] int64, each row one document
  // from its first position, causal. Returns features [rows, length, taps * hidden] in the model's
  // precision; padding after a row's end yields values that nobody may read. Undefined where
  // `stopping` said so. Layers above the last tap, and the head, are not computed.
  torch::Tensor features(const torch::Tensor& tokens, const std::vector<std::int64_t>& taps,
                         const std::function<bool()>& stopping = {}) const;

  KvCache make_cache(std::int64_t batch, std::int64_t capacity) const;
  // Appends n tokens to each sequence at its own length: tokens [batch, n] int64. `counts` (empty:
  // n each) says how many of a row's n tokens are real; the rest are padding and leave no trace.
  TargetOutput forward(const torch::Tensor& tokens, KvCache& cache,
                       const std::vector<std::int64_t>& taps,
                       const std::vector<std::int64_t>& counts = {}) const;
  torch::Tensor logits(const torch::Tensor& hidden) const;  // [..., vocab] fp32

 private:
  std::shared_ptr<const TargetWeights> weights_;
};

}  // namespace headrace
