// From GGUF tensors to the target's weights.
#include <algorithm>
#include <set>

#include "headrace/error.h"
#include "nn/target_weights.h"
#include "nn/tensor_data.h"

namespace headrace {
namespace {

using torch::Tensor;

struct Part {
  std::string name;
  std::int64_t head_dim = 0;  // not 0: rows of each head are stored for interleaved RoPE
};

// Rows as they come, but heads in the order of halves: row 2i + j of a head becomes row j * half +
// i.
template <typename T>
void fill(const GgufTensor& from, std::int64_t head_dim, T* out) {
  const auto rows = static_cast<std::int64_t>(from.shape[0]);
  const auto columns = static_cast<std::int64_t>(from.shape[1]);
  const std::int64_t chunk = head_dim > 0 ? head_dim : 64;
  at::parallel_for(0, (rows + chunk - 1) / chunk, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> values(static_cast<std::size_t>(chunk * columns));
    for (std::int64_t first = begin * chunk; first < std::min(end * chunk, rows); first += chunk) {
      const std::int64_t count = std::min(chunk, rows - first);
      GgufFile::dequantize_rows(from, static_cast<std::uint64_t>(first),
                                static_cast<std::uint64_t>(count), values.data());
      for (std::int64_t r = 0; r < count; ++r) {
        const std::int64_t to = head_dim > 0 ? r % 2 * (head_dim / 2) + r / 2 : r;
        convert(values.data() + r * columns, columns, out + (first + to) * columns);
      }
    }
  });
}

class Loader {
 public:
  Loader(const GgufFile& file, torch::ScalarType dtype, const std::function<void(double)>& progress)
      : file_(file), dtype_(dtype), progress_(progress) {
    for (const GgufTensor& tensor : file.tensors()) total_ += tensor.elements();
  }

  // The parts' rows, one part below the other: [sum of rows, columns].
  Tensor matrix(const std::vector<Part>& parts) {
    std::int64_t rows = 0;
    for (const Part& part : parts)
      rows += static_cast<std::int64_t>(file_.tensor(part.name).shape[0]);
    const auto columns = static_cast<std::int64_t>(file_.tensor(parts[0].name).shape[1]);
    const Tensor all = torch::empty({rows, columns}, dtype_);
    std::int64_t row = 0;
    for (const Part& part : parts) {
      const GgufTensor& from = file_.tensor(part.name);
      const auto part_rows = static_cast<std::int64_t>(from.shape[0]);
      const Tensor to = all.narrow(0, row, part_rows);
      row += part_rows;
      if (dtype_ == torch::kBFloat16)
        fill(from, part.head_dim, data_of<Bf16>(to));
      else
        fill(from, part.head_dim, data_of<float>(to));
      count(from);
    }
    return all;
  }

  std::vector<float> vector(const std::string& name) {
    const GgufTensor& from = file_.tensor(name);
    std::vector<float> values(from.elements());
    GgufFile::dequantize(from, values.data());
    count(from);
    return values;
  }

  bool has(const std::string& name) const {
    return std::any_of(file_.tensors().begin(), file_.tensors().end(),
                       [&](const GgufTensor& tensor) { return tensor.name == name; });
  }

  // A tensor that nobody read (a bias, scaled RoPE) would silently change what the model computes.
  void refuse_unread() const {
    for (const GgufTensor& tensor : file_.tensors())
      if (!read_.contains(tensor.name))
        fail(ErrorCode::bad_input, "{}: tensor {} is not part of a llama as Headrace knows it",
             file_.path(), tensor.name);
  }

 private:
  void count(const GgufTensor& tensor) {
    read_.insert(tensor.name);
    done_ += tensor.elements();
    if (progress_) progress_(static_cast<double>(done_) / static_cast<double>(total_));
  }

  const GgufFile& file_;
  torch::ScalarType dtype_;
  const std::function<void(double)>& progress_;
  std::uint64_t total_ = 0, done_ = 0;
  std::set<std::string> read_;
};

}  // namespace

Target Target::load(const GgufFile& file, Precision precision,
                    const std::function<void(double)>& progress) {
  const auto weights = std::make_shared<TargetWeights>();
  weights->shape = llama_shape(file);
  weights->precision = precision;
  Loader loader(file, weights->dtype(), progress);
  const std::int64_t head_dim = weights->shape.head_dim;
  weights->embedding = loader.matrix({{"token_embd.weight"}});
  for (std::int64_t i = 0; i < weights->shape.layers; ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    LayerWeights& layer = weights->layers.emplace_back();
    layer.attention_norm = loader.vector(block + "attn_norm.weight");
    layer.qkv = loader.matrix({{block + "attn_q.weight", head_dim},
                               {block + "attn_k.weight", head_dim},
                               {block + "attn_v.weight"}});
    layer.out = loader.matrix({{block + "attn_output.weight"}});
    layer.ffn_norm = loader.vector(block + "ffn_norm.weight");
    layer.gate_up = loader.matrix({{block + "ffn_gate.weight"}, {block + "ffn_up.weight"}});
    layer.down = loader.matrix({{block + "ffn_down.weight"}});
  }
  weights->output_norm = loader.vector("output_norm.weight");
  weights->head =
      loader.has("output.weight") ? loader.matrix({{"output.weight"}}) : weights->embedding;
  loader.refuse_unread();
  Target target;
  target.weights_ = weights;
  return target;
}

}  // namespace headrace
