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

// 256 slots of 49,152 logits in bf16 are 24 MiB: large enough for the products' full speed, small
// enough for the caches.
constexpr std::int64_t kChunk = 256, kRowsStep = 64;

// The supervised slots of a batch, block by block.
struct Slots {
  std::vector<std::int64_t> rows, labels,
      slot;  // row of [rows * anchors * block], label (as an index of the head), k
};

Slots supervised(const DraftBatch& batch, std::int64_t block, const HeadSubset* subset) {
  const Tensor tokens_tensor = batch.tokens.contiguous(),
               lengths_tensor = batch.row_lengths.contiguous(),
               anchors_tensor = batch.anchors.contiguous();
  const auto tokens = tokens_tensor.accessor<std::int64_t, 2>(),
             anchors = anchors_tensor.accessor<std::int64_t, 2>();
  const auto lengths = lengths_tensor.accessor<std::int64_t, 1>();
  Slots slots;
  for (std::int64_t r = 0; r < anchors.size(0); ++r)
    for (std::int64_t a = 0; a < anchors.size(1); ++a)
      for (std::int64_t k = 1; anchors[r][a] >= 0 && k < block && anchors[r][a] + k < lengths[r];
           ++k) {
        const std::int64_t token = tokens[r][anchors[r][a] + k];
        slots.rows.push_back((r * anchors.size(1) + a) * block + k);
        slots.labels.push_back(subset ? subset->index_of(token) : token);
        slots.slot.push_back(k);
      }
  return slots;
}

// Cross entropy of each slot [n]. The gradients of hidden are computed with them, while a chunk's
// logits are there.
struct FrozenHeadLoss : torch::autograd::Function<FrozenHeadLoss> {
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& head,
                        const Slots& slots, LogitTail tail, bool with_gradient,
                        ObjectiveResult& result) {
    const auto n = static_cast<std::int64_t>(slots.rows.size());
    const std::int64_t vocab = head.size(0);
    const auto wide = hidden.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
    const Tensor rows = torch::tensor(slots.rows, torch::kInt64);
    // Chunks of few sizes: libraries prepare a product for each size they meet. The rows added are
    // ignored.
    std::vector<std::int64_t> padded = slots.rows;
    if (n > 0) padded.resize((n + kRowsStep - 1) / kRowsStep * kRowsStep, padded.back());
    const Tensor selected = hidden.index_select(0, torch::tensor(padded, torch::kInt64));
    const Tensor buffer = torch::empty({std::min(selected.size(0), kChunk), vocab},
                                       hidden.options().requires_grad(false));
    const Tensor gradient =
        with_gradient ? torch::empty({n, hidden.size(1)}, buffer.options()) : Tensor();
    std::vector<double> losses(n);
    for (std::int64_t first = 0; first < n; first += kChunk) {
      const std::int64_t count = std::min(kChunk, n - first),
                         with_padding = std::min(kChunk, selected.size(0) - first);
      Tensor logits = buffer.narrow(0, 0, with_padding);
      torch::mm_out(logits, selected.narrow(0, first, with_padding), head.t());
      std::vector<CrossEntropy> entropies(count);
      with_storage(hidden.scalar_type(), [&]<typename T>(T) {
        for_rows(count, vocab, [&](std::int64_t begin, std::int64_t some) {
          for (std::int64_t i = begin; i < begin + some; ++i)
            entropies[i] = cross_entropy_row(data_of<T>(logits) + i * vocab, vocab,
                                             slots.labels[first + i], tail);
        });
      });
      std::vector<double> scales(count);
      for (std::int64_t i = 0; i < count; ++i) {
        losses[first + i] = entropies[i].loss;
        scales[i] = entropies[i].scale;
        result.accepted[slots.slot[first + i] - 1] += entropies[i].correct;
      }
      if (with_gradient)
        gradient.narrow(0, first, count)
            .copy_(torch::mm(logits, head).narrow(0, 0, count) *
                   torch::tensor(scales, wide).unsqueeze(1));
    }
    context->saved_data["shape"] = hidden.sizes();
    context->save_for_backward({gradient, rows});
    return torch::tensor(losses, wide);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor scaled = (saved[0] * gradients[0].unsqueeze(1)).to(saved[0].scalar_type());
    const Tensor dhidden =
        torch::zeros(context->saved_data["shape"].toIntVector(), scaled.options())
            .index_copy_(0, saved[1], scaled);
    return {dhidden, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// The weight of each slot, from the losses of the slots where D-PACE asks for them.
std::vector<double> slot_weights(const Slots& slots, const Tensor& losses,
                                 const ObjectiveOptions& options) {
  const std::size_t n = slots.slot.size();
  std::vector<double> weights(n);
  if (options.dpace <= 0) {
    for (std::size_t i = 0; i < n; ++i)
      weights[i] = std::exp(-static_cast<double>(slots.slot[i] - 1) / options.gamma);
    return weights;
  }
  const Tensor wide = losses.detach().to(torch::kFloat64).contiguous();
  const double* loss = wide.data_ptr<double>();
  for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
    double prefix = 1;
    for (end = begin; end == begin || (end < n && slots.slot[end] > slots.slot[end - 1]); ++end)
      weights[end] = prefix *= (1 - options.dpace) * std::exp(-loss[end]) + options.dpace;
    for (std::size_t i = end - 1; i > begin; --i) weights[i - 1] += weights[i];
  }
  return weights;
}

}  // namespace

ObjectiveResult objective(const Tensor& hidden, const DraftBatch& batch, const Tensor& head,
                          const ObjectiveOptions& options) {
  const std::int64_t block = hidden.size(2);
  const Slots slots = supervised(batch, block, options.subset);
  ObjectiveResult result;
  result.accepted.assign(block - 1, 0);
  result.counted.assign(block - 1, 0);
  for (const std::int64_t k : slots.slot) ++result.counted[k - 1];
  Tensor rows = head.to(hidden.scalar_type());
  if (options.subset)
    rows = rows.index_select(0, torch::tensor(options.subset->ids, torch::kInt64));
  const bool with_gradient = torch::GradMode::is_enabled() && hidden.requires_grad();
  const Tensor losses = FrozenHeadLoss::apply(hidden.reshape({-1, hidden.size(3)}), rows, slots,
                                              options.subset ? options.subset->tail : LogitTail{},
                                              with_gradient, result);
  const std::vector<double> weights = slot_weights(slots, losses, options);
  for (const double weight : weights) result.denominator += weight;
  result.numerator = (losses * torch::tensor(weights, losses.scalar_type())).sum();
  return result;
}

double expected_tau(const std::vector<double>& alpha) {
  double tau = 1, prefix = 1;
  for (const double a : alpha) tau += prefix *= a;
  return tau;
}

}  // namespace headrace
