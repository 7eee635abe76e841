// Start weights of a drafter: random, or from the target's own last layers.
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/ranges.h>

#include <cmath>

#include "headrace/error.h"
#include "nn/drafter.h"

namespace headrace {
namespace {

using torch::Tensor;

Tensor read(const GgufFile& file, const std::string& name, const std::vector<std::int64_t>& shape) {
  const GgufTensor& tensor = file.tensor(name);
  if (!std::equal(
          shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end(),
          [](std::int64_t a, std::uint64_t b) { return static_cast<std::uint64_t>(a) == b; }))
    fail(ErrorCode::bad_input, "{}: {} is [{}], but the model's sizes ask for [{}]", file.path(),
         name, fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
  Tensor values = torch::empty(shape, torch::kFloat32);
  GgufFile::dequantize(tensor, values.data_ptr<float>());
  return values;
}

// GGUF stores a head's rows in pairs (i, i + head_dim / 2) side by side; the drafter rotates
// halves.
Tensor in_halves(const Tensor& rows, std::int64_t heads) {
  return rows.view({heads, rows.size(0) / heads / 2, 2, rows.size(1)})
      .transpose(1, 2)
      .reshape(rows.sizes());
}

// Measured choices (docs/recipe.md). A late layer writes vectors far larger than the embeddings
// that a block starts from; scaled down, the first layer does not drown the anchor's identity.
constexpr double kFirstLayerOutput = 0.05;
// The target's own q and k have a root mean square of about 2.
constexpr double kHeadNorm = 1.5;
// Of the tap before the last, beside the identity on the last: half, times the ratio of their sizes
// in SmolLM2.
constexpr double kSecondTap = 1.25;

}  // namespace

Parameters Drafter::random_parameters(const DrafterConfig& config, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const double deviation = 0.02 * std::sqrt(4096.0 / static_cast<double>(config.target.hidden));
  Parameters parameters;
  for (const auto& [name, shape] : parameter_shapes(config)) {
    Tensor tensor = torch::ones(shape, torch::kFloat32);
    if (shape.size() > 1) tensor.normal_(0, deviation, generator);
    parameters[name] = tensor;
  }
  return parameters;
}

Parameters Drafter::parameters_from_target(const DrafterConfig& config, const GgufFile& target) {
  const LlamaShape& s = config.target;
  if (config.layers > s.layers)
    fail(
        ErrorCode::usage,
        "{} draft layers, but {} has {} layers to start from: use at most these, or a random start",
        config.layers, target.path(), s.layers);
  const auto shapes = parameter_shapes(config);
  const auto taps = static_cast<std::int64_t>(config.taps.size());
  Parameters p;
  p["fc.weight"] = torch::zeros(shapes.at("fc.weight"), torch::kFloat32);
  p["fc.weight"].narrow(1, (taps - 1) * s.hidden, s.hidden).fill_diagonal_(1);
  if (taps > 1)
    p["fc.weight"].narrow(1, (taps - 2) * s.hidden, s.hidden).fill_diagonal_(kSecondTap);
  p["norm.weight"] = read(target, "output_norm.weight", shapes.at("norm.weight"));
  for (std::int64_t l = 0; l < config.layers; ++l) {
    const std::string from = fmt::format("blk.{}.", s.layers - config.layers + l),
                      to = fmt::format("layers.{}.", l);
    const auto copy = [&](const char* gguf, const std::string& name) -> Tensor& {
      return p[to + name] = read(target, from + gguf, shapes.at(to + name));
    };
    const Tensor gain = copy("attn_norm.weight", "input_layernorm.weight");
    // The context is the last tap, close to what the target's layers attend to; the first copied
    // layer normed it so.
    if (l == 0) p["hidden_norm.weight"] = gain.clone();
    copy("ffn_norm.weight", "post_attention_layernorm.weight");
    Tensor& q = copy("attn_q.weight", "self_attn.q_proj.weight");
    Tensor& k = copy("attn_k.weight", "self_attn.k_proj.weight");
    q = in_halves(q, s.heads);
    k = in_halves(k, s.kv_heads);
    for (const char* norm : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"})
      p[to + norm] = torch::full({s.head_dim}, kHeadNorm, torch::kFloat32);
    copy("attn_v.weight", "self_attn.v_proj.weight");
    Tensor& attention_output = copy("attn_output.weight", "self_attn.o_proj.weight");
    copy("ffn_gate.weight", "mlp.gate_proj.weight");
    copy("ffn_up.weight", "mlp.up_proj.weight");
    Tensor& ffn_output = copy("ffn_down.weight", "mlp.down_proj.weight");
    if (l == 0 && config.layers > 1) {
      attention_output *= kFirstLayerOutput;
      ffn_output *= kFirstLayerOutput;
    }
  }
  return p;
}

Parameters parameters_of(const SafeTensorsFile& file) {
  Parameters parameters;
  for (const auto& [name, tensor] : file.tensors()) {
    if (tensor.dtype != "F32")
      fail(ErrorCode::bad_input, "tensor {} is {}, expected F32", name, tensor.dtype);
    parameters[name] =
        torch::from_blob(const_cast<std::byte*>(tensor.data), tensor.shape, torch::kFloat32)
            .clone();
  }
  return parameters;
}

}  // namespace headrace
