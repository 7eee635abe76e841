// A llama in plain double arithmetic, one token after the other, on the weights as GGUF stores them
// (queries and keys rotate in interleaved pairs). Slow, and written independently of nn/target.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "headrace/gguf.h"
#include "nn/llama_shape.h"

namespace headrace::testing {

using Vector = std::vector<double>;

class ReferenceLlama {
 public:
  explicit ReferenceLlama(const GgufFile& file) : file_(file), shape_(llama_shape(file)) {}

  struct Output {
    std::vector<std::vector<Vector>> layers;  // [layer][position]: what the layer puts out
    std::vector<Vector> hidden;               // [position]: after the final norm
    std::vector<Vector> logits;               // [position]
  };

  Output run(const std::vector<std::int64_t>& tokens) const {
    Output out;
    std::vector<Vector> x;
    const Vector embedding = weights("token_embd.weight");
    for (const std::int64_t token : tokens) {
      const auto row = embedding.begin() + token * shape_.hidden;
      x.emplace_back(row, row + shape_.hidden);
    }
    for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      attention(block, x);
      feed_forward(block, x);
      out.layers.push_back(x);
    }
    const bool tied = std::none_of(file_.tensors().begin(), file_.tensors().end(),
                                   [](const auto& t) { return t.name == "output.weight"; });
    const Vector head = tied ? embedding : weights("output.weight");
    const Vector norm = weights("output_norm.weight");
    for (const Vector& row : x) {
      out.hidden.push_back(normed(row, norm));
      out.logits.push_back(product(head, out.hidden.back()));
    }
    return out;
  }

 private:
  const GgufFile& file_;
  LlamaShape shape_;

  Vector weights(const std::string& name) const {
    std::vector<float> values(file_.tensor(name).elements());
    GgufFile::dequantize(file_.tensor(name), values.data());
    return {values.begin(), values.end()};
  }

  Vector normed(const Vector& x, const Vector& weight) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double rms = std::sqrt(squares / static_cast<double>(x.size()) + shape_.norm_eps);
    Vector out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] / rms * weight[i];
    return out;
  }

  static Vector product(const Vector& matrix, const Vector& x) {
    Vector out(matrix.size() / x.size());
    for (std::size_t r = 0; r < out.size(); ++r)
      for (std::size_t i = 0; i < x.size(); ++i) out[r] += matrix[r * x.size() + i] * x[i];
    return out;
  }

  void rotate(Vector& x, std::size_t position) const {
    for (std::size_t i = 0; i < x.size(); i += 2) {
      const auto pair = static_cast<double>(i % static_cast<std::size_t>(shape_.head_dim));
      const double angle = static_cast<double>(position) *
                           std::pow(shape_.rope_base, -pair / static_cast<double>(shape_.head_dim));
      const double a = x[i], b = x[i + 1];
      x[i] = a * std::cos(angle) - b * std::sin(angle);
      x[i + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
  }

  void attention(const std::string& block, std::vector<Vector>& x) const {
    const Vector norm = weights(block + "attn_norm.weight"), q = weights(block + "attn_q.weight");
    const Vector k = weights(block + "attn_k.weight"), v = weights(block + "attn_v.weight");
    const Vector out = weights(block + "attn_output.weight");
    const auto size = static_cast<std::size_t>(shape_.head_dim);
    const auto heads = static_cast<std::size_t>(shape_.heads);
    const std::size_t group = heads / static_cast<std::size_t>(shape_.kv_heads);
    std::vector<Vector> keys, values;
    for (std::size_t at = 0; at < x.size(); ++at) {
      const Vector input = normed(x[at], norm);
      Vector query = product(q, input), attended(heads * size);
      keys.push_back(product(k, input));
      values.push_back(product(v, input));
      rotate(query, at);
      rotate(keys.back(), at);
      for (std::size_t h = 0; h < heads; ++h) {
        Vector share(at + 1);
        double sum = 0;
        for (std::size_t j = 0; j <= at; ++j) {
          double dot = 0;
          for (std::size_t i = 0; i < size; ++i)
            dot += query[h * size + i] * keys[j][h / group * size + i];
          sum += share[j] = std::exp(dot / std::sqrt(static_cast<double>(size)));
        }
        for (std::size_t j = 0; j <= at; ++j)
          for (std::size_t i = 0; i < size; ++i)
            attended[h * size + i] += share[j] / sum * values[j][h / group * size + i];
      }
      add(x[at], product(out, attended));
    }
  }

  void feed_forward(const std::string& block, std::vector<Vector>& x) const {
    const Vector norm = weights(block + "ffn_norm.weight"),
                 down = weights(block + "ffn_down.weight");
    const Vector gate = weights(block + "ffn_gate.weight"), up = weights(block + "ffn_up.weight");
    for (Vector& row : x) {
      const Vector input = normed(row, norm);
      Vector inner = product(gate, input);
      const Vector factor = product(up, input);
      for (std::size_t i = 0; i < inner.size(); ++i)
        inner[i] *= factor[i] / (1 + std::exp(-inner[i]));
      add(row, product(down, inner));
    }
  }

  static void add(Vector& x, const Vector& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
};

}  // namespace headrace::testing
