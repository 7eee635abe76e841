#include "nn/drafter.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "headrace/error.h"
#include "nn/drafter_ops.h"
#include "nn/tensor_data.h"

namespace headrace {
namespace {

using torch::Tensor;

void set_rotations(const LlamaShape& shape, std::int64_t positions, torch::ScalarType type,
                   Tensor& cosine, Tensor& sine) {
  const auto wide = type == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  cosine = torch::empty({positions, shape.head_dim / 2}, wide);
  sine = torch::empty_like(cosine);
  with_storage(wide, [&]<typename T>(T) {
    if constexpr (!std::is_same_v<T, Bf16>)
      rotation_tables(shape.rope_base, positions, shape.head_dim, data_of<T>(cosine),
                      data_of<T>(sine));
  });
}

BlockAttentionShape attention_shape(const DrafterConfig& config) {
  const LlamaShape& shape = config.target;
  return {shape.heads, shape.kv_heads, shape.head_dim, config.block, shape.norm_eps};
}

constexpr std::size_t kRowsStep = 64;

// A batch without its padding.
struct Packed {
  BlockRows rows;
  std::vector<std::int64_t> context, blocks;  // indices into [rows * length] and [rows * anchors]
  std::vector<std::int64_t> tokens;           // a block slot: the anchor's token, then masks
};

Packed pack(const DrafterConfig& config, const DraftBatch& batch) {
  const Tensor tokens_tensor = batch.tokens.contiguous(),
               lengths_tensor = batch.row_lengths.contiguous(),
               anchors_tensor = batch.anchors.contiguous();
  const auto tokens = tokens_tensor.accessor<std::int64_t, 2>(),
             anchors = anchors_tensor.accessor<std::int64_t, 2>();
  const auto lengths = lengths_tensor.accessor<std::int64_t, 1>();
  Packed packed;
  for (std::int64_t r = 0; r < tokens.size(0); ++r) {
    BlockRows::Sequence sequence;
    sequence.context_begin = static_cast<std::int64_t>(packed.context.size());
    sequence.block_begin = static_cast<std::int64_t>(packed.blocks.size());
    for (std::int64_t a = 0; a < anchors.size(1); ++a) {
      const std::int64_t anchor = anchors[r][a];
      if (anchor < 0) continue;
      if (anchor < sequence.context || anchor >= lengths[r] || lengths[r] > tokens.size(1))
        fail(ErrorCode::internal,
             "row {}: anchor {} after anchor {} in a row of {} tokens: anchors ascend and stand "
             "before the row's end",
             r, anchor, sequence.context, lengths[r]);
      sequence.context = anchor;
      ++sequence.blocks;
      packed.blocks.push_back(r * anchors.size(1) + a);
      packed.rows.anchors.push_back(anchor);
      packed.tokens.push_back(tokens[r][anchor]);
      packed.tokens.insert(packed.tokens.end(), config.block - 1, config.mask_token);
    }
    for (std::int64_t i = 0; i < sequence.context; ++i)
      packed.context.push_back(r * tokens.size(1) + i);
    packed.rows.sequences.push_back(sequence);
  }
  // Libraries prepare a product for each size they meet, which costs time and stays in memory: few
  // sizes, then. The rows added repeat one that is there, and nothing reads them.
  if (!packed.context.empty())
    packed.context.resize((packed.context.size() + kRowsStep - 1) / kRowsStep * kRowsStep,
                          packed.context.back());
  return packed;
}

Tensor indices(const std::vector<std::int64_t>& values) {
  return torch::tensor(values, torch::kInt64);
}

}  // namespace

std::map<std::string, std::vector<std::int64_t>> parameter_shapes(const DrafterConfig& config) {
  const LlamaShape& s = config.target;
  const std::int64_t h = s.hidden, q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  std::map<std::string, std::vector<std::int64_t>> shapes{
      {"fc.weight", {h, static_cast<std::int64_t>(config.taps.size()) * h}},
      {"hidden_norm.weight", {h}},
      {"norm.weight", {h}}};
  for (std::int64_t l = 0; l < config.layers; ++l)
    for (const auto& [name, shape] :
         std::map<std::string, std::vector<std::int64_t>>{{"self_attn.q_proj", {q, h}},
                                                          {"self_attn.k_proj", {kv, h}},
                                                          {"self_attn.v_proj", {kv, h}},
                                                          {"self_attn.o_proj", {h, q}},
                                                          {"self_attn.q_norm", {s.head_dim}},
                                                          {"self_attn.k_norm", {s.head_dim}},
                                                          {"mlp.gate_proj", {s.ffn, h}},
                                                          {"mlp.up_proj", {s.ffn, h}},
                                                          {"mlp.down_proj", {h, s.ffn}},
                                                          {"input_layernorm", {h}},
                                                          {"post_attention_layernorm", {h}}})
      shapes[fmt::format("layers.{}.{}.weight", l, name)] = shape;
  return shapes;
}

Parameters trainable_copy(const Parameters& parameters, torch::ScalarType type) {
  Parameters copy;
  for (const auto& [name, tensor] : parameters)
    copy[name] = tensor.detach().to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_();
  return copy;
}

Drafter::Drafter(DrafterConfig config, Parameters parameters, Tensor embedding, Tensor head)
    : config_(std::move(config)), parameters_(std::move(parameters)) {
  for (const auto& [name, shape] : parameter_shapes(config_)) {
    const auto found = parameters_.find(name);
    if (found == parameters_.end()) fail(ErrorCode::bad_input, "the drafter's {} is missing", name);
    if (found->second.sizes() != at::IntArrayRef(shape))
      fail(ErrorCode::bad_input, "the drafter's {} is [{}], but the model asks for [{}]", name,
           fmt::join(found->second.sizes(), ", "), fmt::join(shape, ", "));
  }
  embedding_ = embedding.to(dtype());
  head_ = head.to(dtype());
}

torch::ScalarType Drafter::dtype() const {
  return parameters_.at("fc.weight").scalar_type();
}

const Tensor& Drafter::weight(std::int64_t layer, const char* name) const {
  return parameters_.at(fmt::format("layers.{}.{}.weight", layer, name));
}

Tensor Drafter::fuse(const Tensor& features) const {
  const Tensor fused = product(features.to(dtype()), parameters_.at("fc.weight"));
  return add_rms_norm(fused, {}, parameters_.at("hidden_norm.weight"), config_.target.norm_eps)
      .second;
}

Tensor Drafter::blocks(const Tensor& tokens, const std::shared_ptr<const BlockRows>& rows,
                       const Tensor* context, const DraftCache* cache) const {
  const double eps = config_.target.norm_eps;
  const std::int64_t slots = tokens.size(0);
  Tensor x = embedding_.index_select(0, tokens), n, delta;
  for (std::int64_t l = 0; l < config_.layers; ++l) {
    std::tie(x, n) = add_rms_norm(x, delta, weight(l, "input_layernorm"), eps);
    const Tensor &wk = weight(l, "self_attn.k_proj"), &wv = weight(l, "self_attn.v_proj");
    Tensor context_k, context_v, block_k, block_v;
    if (context != nullptr) {
      // One product for context and blocks: its backward pass then gives the whole weight gradient
      // at once.
      const Tensor all = torch::cat({*context, n});
      const std::vector<std::int64_t> sizes{context->size(0), slots};
      const auto k = product(all, wk).split_with_sizes(sizes),
                 v = product(all, wv).split_with_sizes(sizes);
      context_k = k[0], block_k = k[1], context_v = v[0], block_v = v[1];
    } else {
      context_k = cache->keys[l], context_v = cache->values[l];
      block_k = product(n, wk), block_v = product(n, wv);
    }
    const Tensor attended = block_attention(
        attention_shape(config_), rows, product(n, weight(l, "self_attn.q_proj")), context_k,
        context_v, block_k, block_v, weight(l, "self_attn.q_norm"), weight(l, "self_attn.k_norm"));
    delta = product(attended, weight(l, "self_attn.o_proj"));
    std::tie(x, n) = add_rms_norm(x, delta, weight(l, "post_attention_layernorm"), eps);
    const Tensor gate = product(n, weight(l, "mlp.gate_proj")),
                 up = product(n, weight(l, "mlp.up_proj"));
    delta = product(silu_mul(gate, up), weight(l, "mlp.down_proj"));
  }
  return add_rms_norm(x, delta, parameters_.at("norm.weight"), eps).second;
}

Tensor Drafter::forward(const DraftBatch& batch) const {
  Packed packed = pack(config_, batch);
  const std::int64_t rows = batch.anchors.size(0), anchors = batch.anchors.size(1),
                     hidden = config_.target.hidden;
  set_rotations(config_.target, batch.tokens.size(1) + config_.block, dtype(), packed.rows.cosine,
                packed.rows.sine);
  // Only what a block sees: padding may hold anything, and costs nothing.
  const Tensor context = fuse(batch.features.reshape({-1, batch.features.size(2)})
                                  .index_select(0, indices(packed.context)));
  const Tensor out = blocks(indices(packed.tokens),
                            std::make_shared<BlockRows>(std::move(packed.rows)), &context, nullptr);
  if (static_cast<std::int64_t>(packed.blocks.size()) == rows * anchors)
    return out.view({rows, anchors, config_.block, hidden});
  return torch::zeros({rows * anchors, config_.block, hidden}, out.options())
      .index_copy(0, indices(packed.blocks), out.view({-1, config_.block, hidden}))
      .view({rows, anchors, config_.block, hidden});
}

Tensor Drafter::propose(const DraftBatch& batch) const {
  torch::NoGradGuard no_grad;
  const Tensor hidden = forward(batch).slice(2, 1).contiguous();
  return head_argmax(hidden.view({-1, config_.target.hidden}), head_)
      .view({hidden.size(0), hidden.size(1), config_.block - 1});
}

DraftCache Drafter::make_cache(std::int64_t capacity) const {
  DraftCache cache;
  const std::int64_t width = config_.target.kv_heads * config_.target.head_dim;
  for (std::int64_t l = 0; l < config_.layers; ++l) {
    cache.keys.push_back(torch::empty({capacity, width}, dtype()));
    cache.values.push_back(torch::empty({capacity, width}, dtype()));
  }
  set_rotations(config_.target, capacity + config_.block, dtype(), cache.cosine, cache.sine);
  return cache;
}

void Drafter::extend(DraftCache& cache, const Tensor& features) const {
  torch::NoGradGuard no_grad;
  const std::int64_t count = features.size(0);
  if (cache.length + count > cache.capacity())
    fail(ErrorCode::internal, "the draft cache holds {} of {} positions, {} more do not fit",
         cache.length, cache.capacity(), count);
  const Tensor context = fuse(features);
  for (std::int64_t l = 0; l < config_.layers; ++l) {
    cache.keys[l]
        .narrow(0, cache.length, count)
        .copy_(product(context, weight(l, "self_attn.k_proj")));
    cache.values[l]
        .narrow(0, cache.length, count)
        .copy_(product(context, weight(l, "self_attn.v_proj")));
  }
  cache.length += count;
}

Tensor Drafter::draft(const DraftCache& cache, std::int64_t bonus) const {
  torch::NoGradGuard no_grad;
  auto rows = std::make_shared<BlockRows>();
  rows->sequences.push_back({0, cache.length, 0, 1});
  rows->anchors.push_back(cache.length);
  rows->cosine = cache.cosine;
  rows->sine = cache.sine;
  std::vector<std::int64_t> tokens(config_.block, config_.mask_token);
  tokens[0] = bonus;
  return head_argmax(blocks(indices(tokens), rows, nullptr, &cache).slice(0, 1).contiguous(),
                     head_);
}

}  // namespace headrace
