#include "nn/objective.h"

#include <cmath>

#include "nn/drafter_ops.h"
#include "nn/files/cross_entropy.h"
#include "nn/tensor_data.h"

namespace headrace {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// 256 slots of 49,152 logits in bf16 are 24 MiB: large enough for the products' full speed, small enough for the caches.
constexpr std::int64_t kChunk = 256;

// The supervised slots of a batch.
struct Slots {
  std::vector<std::int64_t> rows, labels, slot;  // row of [rows * anchors * block], label, k
  std::vector<double> weights;
};

Slots supervised(const DraftBatch& batch, std::int64_t block, double gamma) {
  const Tensor tokens_tensor = batch.tokens.contiguous(), lengths_tensor = batch.row_lengths.contiguous(), anchors_tensor = batch.anchors.contiguous();
  const auto tokens = tokens_tensor.accessor<std::int64_t, 2>(), anchors = anchors_tensor.accessor<std::int64_t, 2>();
  const auto lengths = lengths_tensor.accessor<std::int64_t, 1>();
  Slots slots;
  for (std::int64_t r = 0; r < anchors.size(0); ++r)
    for (std::int64_t a = 0; a < anchors.size(1); ++a)
      for (std::int64_t k = 1; anchors[r][a] >= 0 && k < block && anchors[r][a] + k < lengths[r]; ++k) {
        slots.rows.push_back((r * anchors.size(1) + a) * block + k);
        slots.labels.push_back(tokens[r][anchors[r][a] + k]);
        slots.slot.push_back(k);
        slots.weights.push_back(std::exp(-static_cast<double>(k - 1) / gamma));
      }
  return slots;
}

// Sum of weighted cross entropies. The gradient of hidden is computed with the loss, while a chunk's logits are there.
struct FrozenHeadLoss : torch::autograd::Function<FrozenHeadLoss> {
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& head, const Slots& slots, bool with_gradient,
                        ObjectiveResult& result) {
    const auto n = static_cast<std::int64_t>(slots.rows.size());
    const std::int64_t vocab = head.size(0);
    const Tensor rows = torch::tensor(slots.rows, torch::kInt64), selected = hidden.index_select(0, rows);
    const Tensor buffer = torch::empty({std::min(n, kChunk), vocab}, hidden.options().requires_grad(false));
    const Tensor gradient = with_gradient ? torch::empty_like(selected) : Tensor();
    double numerator = 0;
    for (std::int64_t first = 0; first < n; first += kChunk) {
      const std::int64_t count = std::min(kChunk, n - first);
      Tensor logits = buffer.narrow(0, 0, count);
      torch::mm_out(logits, selected.narrow(0, first, count), head.t());
      std::vector<CrossEntropy> entropies(count);
      with_storage(hidden.scalar_type(), [&]<typename T>(T) {
        for_rows(count, vocab, [&](std::int64_t begin, std::int64_t some) {
          for (std::int64_t i = begin; i < begin + some; ++i)
            entropies[i] = cross_entropy_row(data_of<T>(logits) + i * vocab, vocab, slots.labels[first + i]);
        });
      });
      std::vector<double> scales(count);
      for (std::int64_t i = 0; i < count; ++i) {
        numerator += slots.weights[first + i] * entropies[i].loss;
        scales[i] = slots.weights[first + i] * entropies[i].scale;
        result.accepted[slots.slot[first + i] - 1] += entropies[i].correct;
      }
      if (with_gradient) {
        const auto wide = hidden.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
        gradient.narrow(0, first, count).copy_(torch::mm(logits, head) * torch::tensor(scales, wide).unsqueeze(1));
      }
    }
    context->saved_data["shape"] = hidden.sizes();
    context->save_for_backward({gradient, rows});
    return torch::scalar_tensor(numerator, hidden.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor scaled = (saved[0] * gradients[0]).to(saved[0].scalar_type());
    const Tensor dhidden = torch::zeros(context->saved_data["shape"].toIntVector(), scaled.options()).index_copy_(0, saved[1], scaled);
    return {dhidden, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

ObjectiveResult objective(const Tensor& hidden, const DraftBatch& batch, const Tensor& head, double gamma) {
  const std::int64_t block = hidden.size(2);
  const Slots slots = supervised(batch, block, gamma);
  ObjectiveResult result;
  result.accepted.assign(block - 1, 0);
  result.counted.assign(block - 1, 0);
  for (std::size_t i = 0; i < slots.rows.size(); ++i) {
    result.denominator += slots.weights[i];
    ++result.counted[slots.slot[i] - 1];
  }
  const bool with_gradient = torch::GradMode::is_enabled() && hidden.requires_grad();
  result.numerator = FrozenHeadLoss::apply(hidden.reshape({-1, hidden.size(3)}), head.to(hidden.scalar_type()), slots, with_gradient, result);
  return result;
}

double expected_tau(const std::vector<double>& alpha) {
  double tau = 1, prefix = 1;
  for (const double a : alpha) tau += prefix *= a;
  return tau;
}

}  // namespace headrace
