// The drafter as the paper writes it, dense and slow: every query of a row against every key, with
// the packed mask. Shares nothing with the implementation but parameter names. Also small random
// drafters and batches.
#pragma once

#include <torch/torch.h>

#include <cmath>

#include "nn/drafter.h"

namespace headrace::testing {

using torch::Tensor;

inline DrafterConfig small_config() {
  DrafterConfig config;
  config.target = {.hidden = 20,
                   .layers = 6,
                   .heads = 4,
                   .kv_heads = 2,
                   .head_dim = 6,
                   .ffn = 28,
                   .vocab = 37,
                   .context = 64,
                   .rope_base = 100,
                   .norm_eps = 1e-5};
  config.layers = 2;
  config.block = 4;
  config.taps = {1, 3};
  config.mask_token = 5;
  return config;
}

struct Model {
  DrafterConfig config;
  Tensor embedding, head;
  Parameters parameters;  // fp64, norms away from one
  Drafter drafter(torch::ScalarType type) const {
    return Drafter(config, trainable_copy(parameters, type), embedding, head);
  }
};

inline Model random_model(const DrafterConfig& config, std::uint64_t seed) {
  torch::manual_seed(seed);
  const auto options = torch::dtype(torch::kFloat64);
  Model model{config,
              torch::randn({config.target.vocab, config.target.hidden}, options),
              torch::randn({config.target.vocab, config.target.hidden}, options),
              {}};
  for (const auto& [name, shape] : parameter_shapes(config))
    model.parameters[name] =
        shape.size() > 1 ? torch::randn(shape, options) / std::sqrt(static_cast<double>(shape[1]))
                         : 1 + 0.3 * torch::randn(shape, options);
  return model;
}

// Rows of the given lengths with these anchors; padding is NaN in the features and the mask token
// in the tokens.
inline DraftBatch make_batch(const DrafterConfig& config, const std::vector<std::int64_t>& lengths,
                             const std::vector<std::vector<std::int64_t>>& anchors,
                             std::uint64_t seed) {
  torch::manual_seed(seed);
  const auto rows = static_cast<std::int64_t>(lengths.size());
  std::int64_t length = 1, most = 1;
  for (const auto n : lengths) length = std::max(length, n + 2);
  for (const auto& row : anchors) most = std::max(most, static_cast<std::int64_t>(row.size()));
  DraftBatch batch;
  batch.features = torch::randn(
      {rows, length, static_cast<std::int64_t>(config.taps.size()) * config.target.hidden},
      torch::kFloat64);
  batch.tokens = torch::randint(config.target.vocab, {rows, length}, torch::kInt64);
  batch.row_lengths = torch::tensor(lengths, torch::kInt64);
  batch.anchors = torch::full({rows, most}, -1, torch::kInt64);
  for (std::int64_t r = 0; r < rows; ++r) {
    batch.features[r].slice(0, lengths[r]).fill_(std::nan(""));
    batch.tokens[r].slice(0, lengths[r]).fill_(config.mask_token);
    for (std::size_t a = 0; a < anchors[r].size(); ++a)
      batch.anchors[r][static_cast<std::int64_t>(a)] = anchors[r][a];
  }
  return batch;
}

inline DraftBatch with_type(DraftBatch batch, torch::ScalarType type) {
  batch.features = batch.features.to(type);
  return batch;
}

inline Tensor reference_norm(const Tensor& x, const Tensor& weight, double eps) {
  return x * torch::rsqrt(x.square().mean(-1, true) + eps) * weight;
}

// x: [n, heads, head_dim] at positions [n].
inline Tensor reference_rotation(const Tensor& x, const Tensor& positions, double base) {
  const std::int64_t half = x.size(2) / 2;
  const Tensor frequency =
      torch::pow(base, -2.0 * torch::arange(half, torch::kFloat64) / static_cast<double>(2 * half));
  const Tensor angle = (positions.to(torch::kFloat64).unsqueeze(1) * frequency).unsqueeze(1);
  const Tensor low = x.slice(2, 0, half), high = x.slice(2, half);
  return torch::cat(
      {low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()}, 2);
}

// [blocks, block, H] of one row; anchors without -1.
inline Tensor reference_row(const Drafter& drafter, const Tensor& embedding, const Tensor& features,
                            const Tensor& tokens, const std::vector<std::int64_t>& anchors) {
  const DrafterConfig& config = drafter.config();
  const LlamaShape& s = config.target;
  const Parameters& p = drafter.parameters();
  const std::int64_t context = features.size(0), block = config.block,
                     slots = static_cast<std::int64_t>(anchors.size()) * block;
  Tensor ids = torch::full({slots}, config.mask_token, torch::kInt64),
         q_positions = torch::empty({slots}, torch::kInt64);
  Tensor allowed = torch::zeros({slots, context + slots}, torch::kBool);
  for (std::int64_t q = 0; q < slots; ++q) {
    const std::int64_t anchor = anchors[static_cast<std::size_t>(q / block)];
    if (q % block == 0) ids[q] = tokens[anchor];
    q_positions[q] = anchor + q % block;
    for (std::int64_t kv = 0; kv < context + slots; ++kv)
      allowed[q][kv] = kv < context ? kv < anchor : (kv - context) / block == q / block;
  }
  const Tensor k_positions = torch::cat({torch::arange(context), q_positions});
  const Tensor fused = reference_norm(torch::matmul(features, p.at("fc.weight").t()),
                                      p.at("hidden_norm.weight"), s.norm_eps);
  Tensor x = embedding.index_select(0, ids);
  for (std::int64_t l = 0; l < config.layers; ++l) {
    const auto w = [&](const std::string& name) {
      return p.at("layers." + std::to_string(l) + "." + name + ".weight");
    };
    const Tensor n = reference_norm(x, w("input_layernorm"), s.norm_eps),
                 all = torch::cat({fused, n});
    const auto heads = [&](const Tensor& rows, const std::string& name, std::int64_t count) {
      return torch::matmul(rows, w("self_attn." + name + "_proj").t())
          .view({rows.size(0), count, s.head_dim});
    };
    const Tensor q = reference_rotation(
        reference_norm(heads(n, "q", s.heads), w("self_attn.q_norm"), s.norm_eps), q_positions,
        s.rope_base);
    const Tensor k = reference_rotation(
        reference_norm(heads(all, "k", s.kv_heads), w("self_attn.k_norm"), s.norm_eps), k_positions,
        s.rope_base);
    const Tensor v = heads(all, "v", s.kv_heads);
    std::vector<Tensor> outputs;
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t g = h / (s.heads / s.kv_heads);
      Tensor scores = torch::matmul(q.select(1, h), k.select(1, g).t()) /
                      std::sqrt(static_cast<double>(s.head_dim));
      scores = scores.masked_fill(~allowed, -INFINITY);
      outputs.push_back(torch::matmul(torch::softmax(scores, 1), v.select(1, g)));
    }
    x = x + torch::matmul(torch::cat(outputs, 1), w("self_attn.o_proj").t());
    const Tensor m = reference_norm(x, w("post_attention_layernorm"), s.norm_eps);
    const Tensor gate = torch::matmul(m, w("mlp.gate_proj").t());
    x = x + torch::matmul(gate * torch::sigmoid(gate) * torch::matmul(m, w("mlp.up_proj").t()),
                          w("mlp.down_proj").t());
  }
  return reference_norm(x, p.at("norm.weight"), s.norm_eps).view({-1, block, s.hidden});
}

inline std::vector<std::int64_t> valid_anchors(const DraftBatch& batch, std::int64_t row) {
  std::vector<std::int64_t> anchors;
  for (std::int64_t a = 0; a < batch.anchors.size(1); ++a)
    if (const auto anchor = batch.anchors[row][a].item<std::int64_t>(); anchor >= 0)
      anchors.push_back(anchor);
  return anchors;
}

struct ReferenceLoss {
  Tensor numerator;
  double denominator = 0;
};

inline ReferenceLoss reference_loss(const Drafter& drafter, const Model& model,
                                    const DraftBatch& batch, double gamma) {
  ReferenceLoss loss{torch::zeros({}, torch::kFloat64), 0};
  for (std::int64_t r = 0; r < batch.tokens.size(0); ++r) {
    const auto anchors = valid_anchors(batch, r);
    const std::int64_t length = batch.row_lengths[r].item<std::int64_t>();
    if (anchors.empty()) continue;
    const Tensor hidden = reference_row(
        drafter, model.embedding, batch.features[r].slice(0, 0, length), batch.tokens[r], anchors);
    const Tensor logs = torch::log_softmax(torch::matmul(hidden, model.head.t()), -1);
    for (std::size_t b = 0; b < anchors.size(); ++b)
      for (std::int64_t k = 1; k < drafter.config().block && anchors[b] + k < length; ++k) {
        const double weight = std::exp(-static_cast<double>(k - 1) / gamma);
        loss.numerator =
            loss.numerator - weight * logs[static_cast<std::int64_t>(b)][k]
                                          [batch.tokens[r][anchors[b] + k].item<std::int64_t>()];
        loss.denominator += weight;
      }
  }
  return loss;
}

}  // namespace headrace::testing
