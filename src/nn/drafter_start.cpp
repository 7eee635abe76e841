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
  if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end(),
                  [](std::int64_t a, std::uint64_t b) { return static_cast<std::uint64_t>(a) == b; }))
    fail(ErrorCode::bad_input, "{}: {} is [{}], but the model's sizes ask for [{}]", file.path(), name, fmt::join(tensor.shape, ", "),
         fmt::join(shape, ", "));
  Tensor values = torch::empty(shape, torch::kFloat32);
  GgufFile::dequantize(tensor, values.data_ptr<float>());
  return values;
}

// GGUF stores a head's rows in pairs (i, i + head_dim / 2) side by side; the drafter rotates halves.
Tensor in_halves(const Tensor& rows, std::int64_t heads) {
  return rows.view({heads, rows.size(0) / heads / 2, 2, rows.size(1)}).transpose(1, 2).reshape(rows.sizes());
}

// Root mean square of weight * (gain * z) for z of independent components of unit variance: what an RMS-normed hidden state
// looks like where nothing was measured.
double expected_rms(const Tensor& weight, const Tensor& gain) {
  return std::sqrt((weight * gain).square().sum(1).mean().item<double>());
}

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

Parameters Drafter::parameters_from_target(const DrafterConfig& config, const GgufFile& target, const HeadScales& scales) {
  const LlamaShape& s = config.target;
  if (config.layers > s.layers)
    fail(ErrorCode::usage, "{} draft layers, but {} has {} layers to start from: use at most these, or a random start", config.layers, target.path(), s.layers);
  const auto shapes = parameter_shapes(config);
  const auto taps = static_cast<std::int64_t>(config.taps.size());
  Parameters p;
  p["fc.weight"] = torch::zeros(shapes.at("fc.weight"), torch::kFloat32);
  p["fc.weight"].narrow(1, (taps - 1) * s.hidden, s.hidden).fill_diagonal_(1);
  p["norm.weight"] = read(target, "output_norm.weight", shapes.at("norm.weight"));
  for (std::int64_t l = 0; l < config.layers; ++l) {
    const std::string from = fmt::format("blk.{}.", s.layers - config.layers + l), to = fmt::format("layers.{}.", l);
    const auto copy = [&](const char* gguf, const std::string& name) -> Tensor& {
      return p[to + name] = read(target, from + gguf, shapes.at(to + name));
    };
    const Tensor gain = copy("attn_norm.weight", "input_layernorm.weight");
    // The context is the last tap, close to what the target's layers attend to; the first copied layer normed it so.
    if (l == 0) p["hidden_norm.weight"] = gain.clone();
    copy("ffn_norm.weight", "post_attention_layernorm.weight");
    Tensor& q = copy("attn_q.weight", "self_attn.q_proj.weight");
    Tensor& k = copy("attn_k.weight", "self_attn.k_proj.weight");
    q = in_halves(q, s.heads);
    k = in_halves(k, s.kv_heads);
    const auto at = static_cast<std::size_t>(l);
    const double q_rms = at < scales.q.size() ? scales.q[at] : expected_rms(q, gain), k_rms = at < scales.k.size() ? scales.k[at] : expected_rms(k, gain);
    p[to + "self_attn.q_norm.weight"] = torch::full({s.head_dim}, q_rms, torch::kFloat32);
    p[to + "self_attn.k_norm.weight"] = torch::full({s.head_dim}, k_rms, torch::kFloat32);
    copy("attn_v.weight", "self_attn.v_proj.weight");
    copy("attn_output.weight", "self_attn.o_proj.weight");
    copy("ffn_gate.weight", "mlp.gate_proj.weight");
    copy("ffn_up.weight", "mlp.up_proj.weight");
    copy("ffn_down.weight", "mlp.down_proj.weight");
  }
  return p;
}

Parameters parameters_of(const SafeTensorsFile& file) {
  Parameters parameters;
  for (const auto& [name, tensor] : file.tensors()) {
    if (tensor.dtype != "F32") fail(ErrorCode::bad_input, "tensor {} is {}, expected F32", name, tensor.dtype);
    parameters[name] = torch::from_blob(const_cast<std::byte*>(tensor.data), tensor.shape, torch::kFloat32).clone();
  }
  return parameters;
}

}  // namespace headrace
