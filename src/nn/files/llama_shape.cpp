#include "nn/llama_shape.h"

#include <algorithm>
#include <cmath>

#include "headrace/error.h"

namespace headrace {
namespace {

// Far above any llama, and small enough that products of two sizes fit 64 bits.
constexpr std::uint64_t kLargest = 1u << 30;

std::int64_t size_of(const GgufFile& file, const std::string& key) {
  const std::uint64_t value = file.integer(key);
  if (value == 0 || value > kLargest)
    fail(ErrorCode::bad_input, "{}: {} is {}, not 1 to {}", file.path(), key, value, kLargest);
  return static_cast<std::int64_t>(value);
}

std::int64_t size_or(const GgufFile& file, const std::string& key, std::int64_t otherwise) {
  return file.has(key) ? size_of(file, key) : otherwise;
}

}  // namespace

LlamaShape llama_shape(const GgufFile& file) {
  const auto& architecture = file.text("general.architecture");
  if (architecture != "llama")
    fail(ErrorCode::bad_input, "{}: architecture \"{}\" is not supported; llama is", file.path(),
         architecture);
  LlamaShape shape;
  shape.hidden = size_of(file, "llama.embedding_length");
  shape.layers = size_of(file, "llama.block_count");
  shape.heads = size_of(file, "llama.attention.head_count");
  shape.kv_heads = size_or(file, "llama.attention.head_count_kv", shape.heads);
  shape.ffn = size_of(file, "llama.feed_forward_length");
  shape.context = size_of(file, "llama.context_length");
  if (file.has("llama.rope.freq_base")) shape.rope_base = file.real("llama.rope.freq_base");
  shape.norm_eps = file.real("llama.attention.layer_norm_rms_epsilon");

  const auto refuse = [&](const std::string& what) {
    fail(ErrorCode::bad_input, "{}: {}", file.path(), what);
  };
  if (shape.hidden % shape.heads != 0)
    refuse(fmt::format("width {} is no multiple of its {} heads", shape.hidden, shape.heads));
  if (shape.heads % shape.kv_heads != 0)
    refuse(fmt::format("{} heads are no multiple of {} KV heads", shape.heads, shape.kv_heads));
  shape.head_dim = size_or(file, "llama.attention.key_length", shape.hidden / shape.heads);
  if (size_or(file, "llama.attention.value_length", shape.head_dim) != shape.head_dim)
    refuse("keys and values of different lengths are not supported");
  if (size_or(file, "llama.rope.dimension_count", shape.head_dim) != shape.head_dim)
    refuse("RoPE over a part of a head is not supported");
  if (shape.head_dim % 2 != 0) refuse(fmt::format("head size {} is odd", shape.head_dim));
  if (!(std::isfinite(shape.rope_base) && shape.rope_base > 0))
    refuse(fmt::format("llama.rope.freq_base is {}, not a positive number", shape.rope_base));
  if (!(std::isfinite(shape.norm_eps) && shape.norm_eps >= 0))
    refuse(fmt::format("llama.attention.layer_norm_rms_epsilon is {}", shape.norm_eps));
  if (file.has("llama.rope.scaling.type") && file.text("llama.rope.scaling.type") != "none")
    refuse(
        fmt::format("RoPE scaling \"{}\" is not supported", file.text("llama.rope.scaling.type")));

  // Each weight has the shape that the sizes demand: nobody above needs to check again.
  using Shape = std::vector<std::uint64_t>;
  const auto check = [&](const std::string& name, const Shape& expected) {
    if (const Shape& found = file.tensor(name).shape; found != expected)
      refuse(fmt::format("tensor {} is [{}], but the metadata demand [{}]", name,
                         fmt::join(found, ", "), fmt::join(expected, ", ")));
  };
  const auto& embedding = file.tensor("token_embd.weight");
  if (embedding.shape.size() != 2) refuse("token_embd.weight has not two dimensions");
  const auto u = [](std::int64_t size) { return static_cast<std::uint64_t>(size); };
  const std::uint64_t vocab = embedding.shape[0], width = u(shape.hidden), ffn = u(shape.ffn);
  if (vocab > kLargest) refuse(fmt::format("a vocabulary of {} is impossible", vocab));
  shape.vocab = static_cast<std::int64_t>(vocab);
  if (shape.vocab != size_or(file, "llama.vocab_size", shape.vocab))
    refuse(fmt::format("token_embd.weight has {} rows, but llama.vocab_size is {}", vocab,
                       file.integer("llama.vocab_size")));
  check("token_embd.weight", {vocab, width});
  check("output_norm.weight", {width});
  const bool tied = std::none_of(file.tensors().begin(), file.tensors().end(),
                                 [](const GgufTensor& t) { return t.name == "output.weight"; });
  if (!tied) check("output.weight", {vocab, width});
  const std::uint64_t queries = u(shape.heads) * u(shape.head_dim);
  const std::uint64_t keys = u(shape.kv_heads) * u(shape.head_dim);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    check(block + "attn_norm.weight", {width});
    check(block + "attn_q.weight", {queries, width});
    check(block + "attn_k.weight", {keys, width});
    check(block + "attn_v.weight", {keys, width});
    check(block + "attn_output.weight", {width, queries});
    check(block + "ffn_norm.weight", {width});
    check(block + "ffn_gate.weight", {ffn, width});
    check(block + "ffn_up.weight", {ffn, width});
    check(block + "ffn_down.weight", {width, ffn});
  }
  return shape;
}

std::vector<std::int64_t> tap_layers(std::int64_t layers, std::int64_t count) {
  if (count < 1 || count > layers)
    fail(ErrorCode::usage, "{} taps of a model with {} layers: give 1 to {}", count, layers,
         layers);
  if (count == 1) return {layers / 2};
  std::vector<std::int64_t> taps;
  // 1 + i (n - 4) / (count - 1) as the reference computes it: the layers 1 to n - 3, evenly spaced.
  // nearbyint rounds half to even in the default rounding mode, as Python's round does.
  for (std::int64_t i = 0; i < count; ++i) {
    const double exact =
        1.0 + static_cast<double>(i * (layers - 4)) / static_cast<double>(count - 1);
    taps.push_back(static_cast<std::int64_t>(std::nearbyint(exact)));
    if (i > 0 && taps[i] <= taps[i - 1])
      fail(ErrorCode::usage, "{} taps do not fit a model with {} layers: give fewer", count,
           layers);
  }
  return taps;
}

}  // namespace headrace
