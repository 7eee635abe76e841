#include "nn/target.h"

#include <algorithm>
#include <limits>

#include "headrace/error.h"
#include "nn/files/cpu_attention.h"
#include "nn/target_weights.h"
#include "nn/tensor_data.h"

namespace headrace {
namespace {

using std::int64_t;
using torch::Tensor;

// Views of a fused product [batch * n, (heads + 2 kv_heads) * head_dim] as [batch, heads, n,
// head_dim].
struct Heads {
  Tensor queries, keys, values;

  Heads(const Tensor& qkv, int64_t batch, const LlamaShape& shape) {
    const Tensor heads =
        qkv.view({batch, -1, shape.heads + 2 * shape.kv_heads, shape.head_dim}).transpose(1, 2);
    queries = heads.narrow(1, 0, shape.heads);
    keys = heads.narrow(1, shape.heads, shape.kv_heads);
    values = heads.narrow(1, shape.heads + shape.kv_heads, shape.kv_heads);
  }
};

// [batch, heads, n, head_dim] -> [batch * n, heads * head_dim]
Tensor join_heads(const Tensor& attended) {
  return attended.transpose(1, 2).reshape(
      {attended.size(0) * attended.size(2), attended.size(1) * attended.size(3)});
}

// Causal attention of each row by itself: qkv [rows * length, ...] -> out [rows * length, heads *
// head_dim].
void attend_rows(const Tensor& qkv, int64_t rows, const AttentionShape& shape, const Tensor& out) {
  at::parallel_for(0, rows * shape.kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / shape.kv_heads * shape.length;
      causal_attention(data_of<Bf16>(qkv) + first * qkv.size(1), shape, i % shape.kv_heads,
                       data_of<Bf16>(out) + first * out.size(1));
    }
  });
}

// What one pass over n tokens needs beside the weights.
struct Pass {
  Tensor tokens;                   // [n] int64
  std::vector<int64_t> positions;  // [n]
  int64_t layers = 0;              // compute the first so many
  std::vector<int64_t> taps;
  // (layer, qkv after RoPE) -> attended [n, heads * head_dim]
  std::function<Tensor(int64_t, const Tensor&)> attend;
  std::function<bool()> stopping;
};

struct PassOutput {
  Tensor hidden;    // [n, hidden] fp32, after the final norm
  Tensor features;  // [n, taps * hidden]; undefined where no taps were asked for
};

void check_tokens(const Tensor& tokens, int64_t vocab) {
  const auto* ids = tokens.data_ptr<int64_t>();
  for (int64_t i = 0; i < tokens.numel(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab)
      fail(ErrorCode::internal, "token {} is outside the vocabulary of {}", ids[i], vocab);
}

void check_taps(const std::vector<int64_t>& taps, int64_t layers) {
  for (const int64_t tap : taps)
    if (tap < 0 || tap >= layers)
      fail(ErrorCode::internal, "no layer {} to tap in {} layers", tap, layers);
}

void check_context(int64_t positions, const LlamaShape& shape) {
  if (positions > shape.context)
    fail(ErrorCode::usage, "{} positions do not fit the model's context of {}", positions,
         shape.context);
}

// Undefined tensors where `stopping` said so. Buffers are shared by the layers, so that memory is
// touched for the first time once a pass, not once a product.
template <typename T>
PassOutput run(const TargetWeights& weights, const Pass& pass) {
  const LlamaShape& shape = weights.shape;
  const int64_t n = pass.tokens.numel(), width = shape.hidden;
  const int64_t tap_count = static_cast<int64_t>(pass.taps.size());
  check_tokens(pass.tokens, shape.vocab);

  const auto buffer = [&](int64_t columns) { return torch::empty({n, columns}, dtype_of<T>); };
  Tensor normed = buffer(width), mixed = buffer(width);
  Tensor qkv = buffer((shape.heads + 2 * shape.kv_heads) * shape.head_dim);
  Tensor gate_up = buffer(2 * shape.ffn), gated = buffer(shape.ffn);
  PassOutput out{torch::empty({n, width}, torch::kFloat32), {}};
  if (tap_count > 0) out.features = buffer(tap_count * width);

  const Tensor residual = torch::empty({n, width}, torch::kFloat32);
  gather_rows(data_of<T>(weights.embedding), pass.tokens.data_ptr<int64_t>(), n, width,
              data_of<float>(residual));
  const int64_t half = shape.head_dim / 2;
  std::vector<float> cosine(static_cast<std::size_t>(n * half)), sine(cosine.size());
  rope_tables(shape.rope_base, pass.positions.data(), n, shape.head_dim, cosine.data(),
              sine.data());

  // residual += what the block before computed (nothing before the first); to = norm(residual)
  const auto add_norm = [&]<typename Out>(bool add, const std::vector<float>& weight, Out* to) {
    for_rows(n, width, [&](int64_t first, int64_t rows) {
      add_rms_norm(data_of<float>(residual) + first * width,
                   add ? data_of<T>(mixed) + first * width : nullptr, weight.data(), shape.norm_eps,
                   rows, width, to + first * width);
    });
  };
  const auto tap = [&](int64_t layer) {
    for (int64_t i = 0; i < tap_count; ++i)
      if (pass.taps[static_cast<std::size_t>(i)] == layer)
        store_rows(data_of<float>(residual), n, width, data_of<T>(out.features) + i * width,
                   tap_count * width);
  };

  for (int64_t l = 0; l < pass.layers; ++l) {
    if (pass.stopping && pass.stopping()) return {};
    const LayerWeights& layer = weights.layers[static_cast<std::size_t>(l)];
    add_norm(l > 0, layer.attention_norm, data_of<T>(normed));
    tap(l - 1);
    multiply(qkv, normed, layer.qkv);
    for_rows(n, qkv.size(1), [&](int64_t first, int64_t rows) {
      rope(data_of<T>(qkv) + first * qkv.size(1), rows, qkv.size(1), shape.heads + shape.kv_heads,
           shape.head_dim, cosine.data() + first * half, sine.data() + first * half);
    });
    multiply(mixed, pass.attend(l, qkv), layer.out);
    add_norm(true, layer.ffn_norm, data_of<T>(normed));
    multiply(gate_up, normed, layer.gate_up);
    for_rows(n, shape.ffn, [&](int64_t first, int64_t rows) {
      silu_mul(data_of<T>(gate_up) + first * 2 * shape.ffn, rows, shape.ffn,
               data_of<T>(gated) + first * shape.ffn);
    });
    multiply(mixed, gated, layer.down);
  }
  add_norm(pass.layers > 0, weights.output_norm, data_of<float>(out.hidden));
  tap(pass.layers - 1);
  return out;
}

PassOutput run(const TargetWeights& weights, const Pass& pass) {
  return weights.precision == Precision::bf16 ? run<Bf16>(weights, pass)
                                              : run<float>(weights, pass);
}

}  // namespace

Precision native_precision() {
  return has_bf16_dot() ? Precision::bf16 : Precision::fp32;
}

const LlamaShape& Target::shape() const {
  return weights_->shape;
}
Precision Target::precision() const {
  return weights_->precision;
}
Tensor Target::embedding() const {
  return weights_->embedding;
}
Tensor Target::head() const {
  return weights_->head;
}

Tensor Target::features(const Tensor& tokens, const std::vector<int64_t>& taps,
                        const std::function<bool()>& stopping) const {
  const torch::NoGradGuard no_grad;
  const int64_t rows = tokens.size(0), length = tokens.size(1);
  check_context(length, shape());
  check_taps(taps, shape().layers);
  if (taps.empty()) fail(ErrorCode::internal, "features of no taps");
  Pass pass;
  pass.tokens = tokens.contiguous().view({-1});
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < length; ++i) pass.positions.push_back(i);
  pass.layers = 1 + *std::max_element(taps.begin(), taps.end());
  pass.taps = taps;
  const AttentionShape attention{length, shape().heads, shape().kv_heads, shape().head_dim};
  const bool own = precision() == Precision::bf16 && has_bf16_dot() && shape().head_dim % 16 == 0;
  const Tensor attended =
      own ? torch::empty({rows * length, attention.heads * attention.head_dim}, torch::kBFloat16)
          : Tensor();
  pass.attend = [&](int64_t, const Tensor& qkv) {
    if (own) {
      attend_rows(qkv, rows, attention, attended);
      return attended;
    }
    const Heads heads(qkv, rows, shape());
    return join_heads(torch::scaled_dot_product_attention(heads.queries, heads.keys, heads.values,
                                                          {}, 0, true, std::nullopt, true));
  };
  pass.stopping = stopping;
  const Tensor features = run(*weights_, pass).features;
  return features.defined() ? features.view({rows, length, -1}) : features;
}

KvCache Target::make_cache(int64_t batch, int64_t capacity) const {
  check_context(capacity, shape());
  KvCache cache;
  for (int64_t l = 0; l < shape().layers; ++l) {
    // Zeros: masked positions are multiplied by 0, which must not meet a NaN.
    cache.keys.push_back(
        torch::zeros({batch, shape().kv_heads, capacity, shape().head_dim}, weights_->dtype()));
    cache.values.push_back(torch::zeros_like(cache.keys.back()));
  }
  cache.lengths.assign(static_cast<std::size_t>(batch), 0);
  return cache;
}

namespace {

// Copies the real tokens' new rows [batch, kv_heads, n, head_dim] behind each sequence's old ones.
void append(const Tensor& rows, const std::vector<int64_t>& lengths,
            const std::vector<int64_t>& counts, Tensor& cache) {
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const auto row = static_cast<int64_t>(b);
    cache[row].narrow(1, lengths[b], counts[b]).copy_(rows[row].narrow(1, 0, counts[b]));
  }
}

// 0 where query i of sequence b may see a position, else minus infinity: [batch, 1, n, positions].
// Queries of padding see what the last real one sees, and position 0 in any case.
Tensor causal_mask(const std::vector<int64_t>& lengths, const std::vector<int64_t>& counts,
                   int64_t n, int64_t positions, torch::ScalarType dtype) {
  const auto batch = static_cast<int64_t>(lengths.size());
  const Tensor mask = torch::full({batch, 1, n, positions}, -std::numeric_limits<float>::infinity(),
                                  torch::kFloat32);
  auto* row = data_of<float>(mask);
  for (std::size_t b = 0; b < lengths.size(); ++b)
    for (int64_t i = 0; i < n; ++i, row += positions)
      std::fill_n(row, std::max<int64_t>(1, lengths[b] + std::min(i + 1, counts[b])), 0.0f);
  return mask.to(dtype);
}

}  // namespace

TargetOutput Target::forward(const Tensor& tokens, KvCache& cache, const std::vector<int64_t>& taps,
                             const std::vector<int64_t>& counts) const {
  const torch::NoGradGuard no_grad;
  check_taps(taps, shape().layers);
  const int64_t batch = tokens.size(0), n = tokens.size(1);
  const std::vector<int64_t> real =
      counts.empty() ? std::vector<int64_t>(static_cast<std::size_t>(batch), n) : counts;
  Pass pass;
  pass.tokens = tokens.contiguous().view({-1});
  int64_t positions = 1;
  for (std::size_t b = 0; b < real.size(); ++b) {
    const int64_t length = cache.lengths.at(b), capacity = cache.keys[0].size(2);
    if (real[b] < 0 || real[b] > n || length + real[b] > capacity)
      fail(ErrorCode::internal, "sequence {}: {} of {} tokens after {} in a cache of {}", b,
           real[b], n, length, capacity);
    positions = std::max(positions, length + real[b]);
    for (int64_t i = 0; i < n; ++i) pass.positions.push_back(length + i);
  }
  // The heads that share a key head are queries of one product: [batch, kv_heads, group * n,
  // head_dim].
  const int64_t kv_heads = shape().kv_heads, group = shape().heads / kv_heads;
  const Tensor mask =
      causal_mask(cache.lengths, real, n, positions, weights_->dtype()).repeat({1, 1, group, 1});
  pass.layers = shape().layers;
  pass.taps = taps;
  pass.attend = [&](int64_t l, const Tensor& qkv) {
    const Heads heads(qkv, batch, shape());
    Tensor& keys = cache.keys[static_cast<std::size_t>(l)];
    Tensor& values = cache.values[static_cast<std::size_t>(l)];
    append(heads.keys, cache.lengths, real, keys);
    append(heads.values, cache.lengths, real, values);
    const Tensor attended = torch::scaled_dot_product_attention(
        heads.queries.reshape({batch, kv_heads, group * n, shape().head_dim}),
        keys.narrow(2, 0, positions), values.narrow(2, 0, positions), mask);
    return join_heads(attended.reshape({batch, shape().heads, n, shape().head_dim}));
  };
  const PassOutput out = run(*weights_, pass);
  for (std::size_t b = 0; b < real.size(); ++b) cache.lengths[b] += real[b];
  TargetOutput result{out.hidden.view({batch, n, -1}), {}};
  if (out.features.defined()) result.features = out.features.view({batch, n, -1});
  return result;
}

Tensor Target::logits(const Tensor& hidden) const {
  const torch::NoGradGuard no_grad;
  return product(hidden.to(weights_->dtype()), weights_->head).to(torch::kFloat32);
}

}  // namespace headrace
