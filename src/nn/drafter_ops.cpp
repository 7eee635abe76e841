#include "nn/drafter_ops.h"

#include "nn/files/cross_entropy.h"
#include "nn/tensor_data.h"

namespace headrace {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

torch::ScalarType wide_type(const Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

Tensor wide_zeros(const Tensor& like, at::IntArrayRef shape) {
  return torch::zeros(shape, like.options().dtype(wide_type(like)).requires_grad(false));
}

// Rows a part: partial weight gradients are summed over parts in order, so the parts do not depend
// on the threads.
constexpr std::int64_t kPart = 128;
std::int64_t parts_of(std::int64_t rows) {
  return (rows + kPart - 1) / kPart;
}

struct AddRmsNorm : torch::autograd::Function<AddRmsNorm> {
  static tensor_list forward(AutogradContext* context, const Tensor& x,
                             const std::optional<Tensor>& added, const Tensor& weight, double eps) {
    const Tensor delta = added.value_or(Tensor());
    const std::int64_t rows = x.size(0), width = x.size(1);
    const Tensor out = torch::empty_like(x), sum = delta.defined() ? torch::empty_like(x) : x;
    with_storage(x.scalar_type(), [&]<typename T>(T) {
      for_rows(rows, width, [&](std::int64_t first, std::int64_t count) {
        const std::int64_t at = first * width;
        add_rms_norm_rows(data_of<T>(x) + at, delta.defined() ? data_of<T>(delta) + at : nullptr,
                          data_of<T>(weight), eps, count, width, data_of<T>(sum) + at,
                          data_of<T>(out) + at);
      });
    });
    context->save_for_backward({sum, weight});
    context->saved_data["eps"] = eps;
    context->saved_data["delta"] = delta.defined();
    if (!delta.defined()) return {out};
    return {out, sum};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &weight = saved[1];
    const double eps = context->saved_data["eps"].toDouble();
    const bool has_delta = context->saved_data["delta"].toBool();
    const std::int64_t rows = sum.size(0), width = sum.size(1), parts = parts_of(rows);
    const Tensor dout = gradients[0].defined() ? gradients[0].contiguous() : torch::zeros_like(sum);
    const Tensor dsum = has_delta && gradients[1].defined() ? gradients[1].contiguous() : Tensor();
    const Tensor dx = torch::empty_like(sum), dweight = wide_zeros(sum, {parts, width});
    with_storage(sum.scalar_type(), [&]<typename T>(T) {
      at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t part = begin; part < end; ++part) {
          const std::int64_t first = part * kPart, at = first * width;
          add_rms_norm_backward(data_of<T>(sum) + at, data_of<T>(weight), data_of<T>(dout) + at,
                                dsum.defined() ? data_of<T>(dsum) + at : nullptr, eps,
                                std::min(kPart, rows - first), width, data_of<T>(dx) + at,
                                data_of<Wide<T>>(dweight) + part * width);
        }
      });
    });
    return {dx, has_delta ? dx : Tensor(), dweight.sum(0).to(weight.scalar_type()), Tensor()};
  }
};

struct SiluMul : torch::autograd::Function<SiluMul> {
  static Tensor forward(AutogradContext* context, const Tensor& gate, const Tensor& up) {
    const Tensor out = torch::empty_like(gate);
    with_storage(gate.scalar_type(), [&]<typename T>(T) {
      for_rows(gate.numel(), 1, [&](std::int64_t first, std::int64_t count) {
        silu_mul_elements(data_of<T>(gate) + first, data_of<T>(up) + first, count,
                          data_of<T>(out) + first);
      });
    });
    context->save_for_backward({gate, up});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &gate = saved[0], &up = saved[1], dout = gradients[0].contiguous();
    const Tensor dgate = torch::empty_like(gate), dup = torch::empty_like(up);
    with_storage(gate.scalar_type(), [&]<typename T>(T) {
      for_rows(gate.numel(), 1, [&](std::int64_t first, std::int64_t count) {
        silu_mul_backward(data_of<T>(gate) + first, data_of<T>(up) + first,
                          data_of<T>(dout) + first, count, data_of<T>(dgate) + first,
                          data_of<T>(dup) + first);
      });
    });
    return {dgate, dup};
  }
};

// The tensors of one attention in a fixed order, as autograd hands them around.
enum AttentionTensor {
  kQ,
  kContextK,
  kContextV,
  kBlockK,
  kBlockV,
  kQNorm,
  kKNorm,
  kAttentionTensors
};

// f(sequence, kv_head, task) for every task of an attention, over the threads.
template <typename F>
void for_heads(const BlockAttentionShape& shape, const BlockRows& rows, const F& f) {
  const auto tasks = static_cast<std::int64_t>(rows.sequences.size()) * shape.kv_heads;
  at::parallel_for(0, tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task)
      f(rows.sequences[task / shape.kv_heads], task % shape.kv_heads, task);
  });
}

BlockAttentionRow attention_row(const BlockRows& rows, const BlockRows::Sequence& sequence) {
  return {sequence.context, sequence.blocks, rows.anchors.data() + sequence.block_begin};
}

// First elements of a sequence's rows in the packed tensors.
struct Offsets {
  std::int64_t q, block_kv, context_kv;
};
Offsets offsets(const BlockAttentionShape& shape, const BlockRows::Sequence& sequence) {
  const std::int64_t slot = sequence.block_begin * shape.block,
                     kv = shape.kv_heads * shape.head_dim;
  return {slot * shape.heads * shape.head_dim, slot * kv, sequence.context_begin * kv};
}

template <typename T>
BlockAttentionInputs<T> attention_inputs(const tensor_list& t, const BlockRows& rows,
                                         const Offsets& at) {
  return {data_of<T>(t[kQ]) + at.q,
          data_of<T>(t[kContextK]) + at.context_kv,
          data_of<T>(t[kContextV]) + at.context_kv,
          data_of<T>(t[kBlockK]) + at.block_kv,
          data_of<T>(t[kBlockV]) + at.block_kv,
          data_of<T>(t[kQNorm]),
          data_of<T>(t[kKNorm]),
          data_of<Wide<T>>(rows.cosine),
          data_of<Wide<T>>(rows.sine)};
}

// What the backward pass needs beside tensors.
struct Call : torch::CustomClassHolder {
  Call(const BlockAttentionShape& shape_, std::shared_ptr<const BlockRows> rows_)
      : shape(shape_), rows(std::move(rows_)) {}
  BlockAttentionShape shape;
  std::shared_ptr<const BlockRows> rows;
};

struct BlockAttention : torch::autograd::Function<BlockAttention> {
  static Tensor forward(AutogradContext* context, const BlockAttentionShape& shape,
                        std::shared_ptr<const BlockRows> rows, const Tensor& q,
                        const Tensor& context_k, const Tensor& context_v, const Tensor& block_k,
                        const Tensor& block_v, const Tensor& q_norm, const Tensor& k_norm) {
    const tensor_list tensors{q, context_k, context_v, block_k, block_v, q_norm, k_norm};
    const Tensor out = torch::empty_like(q), log_sums = wide_zeros(q, {q.size(0), shape.heads});
    with_storage(q.scalar_type(), [&]<typename T>(T) {
      for_heads(shape, *rows,
                [&](const BlockRows::Sequence& sequence, std::int64_t kv_head, std::int64_t) {
                  const Offsets at = offsets(shape, sequence);
                  block_attention(shape, attention_row(*rows, sequence),
                                  attention_inputs<T>(tensors, *rows, at), kv_head,
                                  data_of<T>(out) + at.q,
                                  data_of<Wide<T>>(log_sums) +
                                      sequence.block_begin * shape.block * shape.heads);
                });
    });
    context->save_for_backward(
        {q, context_k, context_v, block_k, block_v, q_norm, k_norm, log_sums});
    context->saved_data["call"] =
        at::IValue::make_capsule(c10::make_intrusive<Call>(shape, std::move(rows)));
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    tensor_list t = context->get_saved_variables();
    const Tensor log_sums = t[kAttentionTensors], dout = gradients[0].contiguous();
    t.resize(kAttentionTensors);
    const auto call =
        c10::static_intrusive_pointer_cast<Call>(context->saved_data["call"].toCapsule());
    const BlockAttentionShape& shape = call->shape;
    tensor_list d;
    for (int i = kQ; i <= kBlockV; ++i)
      // A context may have rows that no sequence holds.
      d.push_back(i == kContextK || i == kContextV ? torch::zeros_like(t[i])
                                                   : torch::empty_like(t[i]));
    // A task adds to weight gradients of its own; they are summed in the order of tasks.
    const auto tasks = static_cast<std::int64_t>(call->rows->sequences.size()) * shape.kv_heads;
    const Tensor dnorms = wide_zeros(dout, {2, tasks, shape.head_dim});
    with_storage(dout.scalar_type(), [&]<typename T>(T) {
      for_heads(
          shape, *call->rows,
          [&](const BlockRows::Sequence& sequence, std::int64_t kv_head, std::int64_t task) {
            const Offsets at = offsets(shape, sequence);
            Wide<T>* const dq_norm = data_of<Wide<T>>(dnorms) + task * shape.head_dim;
            block_attention_backward(
                shape, attention_row(*call->rows, sequence),
                attention_inputs<T>(t, *call->rows, at), kv_head,
                data_of<Wide<T>>(log_sums) + sequence.block_begin * shape.block * shape.heads,
                data_of<T>(dout) + at.q,
                {data_of<T>(d[kQ]) + at.q, data_of<T>(d[kContextK]) + at.context_kv,
                 data_of<T>(d[kContextV]) + at.context_kv, data_of<T>(d[kBlockK]) + at.block_kv,
                 data_of<T>(d[kBlockV]) + at.block_kv, dq_norm, dq_norm + tasks * shape.head_dim});
          });
    });
    const Tensor sums = dnorms.sum(1).to(t[kQNorm].scalar_type());
    return {Tensor(),   Tensor(),   d[kQ],   d[kContextK], d[kContextV],
            d[kBlockK], d[kBlockV], sums[0], sums[1]};
  }
};

}  // namespace

std::pair<Tensor, Tensor> add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& weight,
                                       double eps) {
  // Autograd takes no undefined tensor, but an absent one.
  const tensor_list result = AddRmsNorm::apply(
      x, delta.defined() ? std::optional<Tensor>(delta) : std::nullopt, weight, eps);
  return {delta.defined() ? result[1] : x, result[0]};
}

Tensor silu_mul(const Tensor& gate, const Tensor& up) {
  return SiluMul::apply(gate, up);
}

Tensor block_attention(const BlockAttentionShape& shape,
                       const std::shared_ptr<const BlockRows>& rows, const Tensor& q,
                       const Tensor& context_k, const Tensor& context_v, const Tensor& block_k,
                       const Tensor& block_v, const Tensor& q_norm, const Tensor& k_norm) {
  return BlockAttention::apply(shape, rows, q, context_k, context_v, block_k, block_v, q_norm,
                               k_norm);
}

Tensor head_argmax(const Tensor& hidden, const Tensor& head) {
  constexpr std::int64_t chunk = 256;
  torch::NoGradGuard no_grad;
  const std::int64_t n = hidden.size(0), vocab = head.size(0), width = head.size(1);
  const Tensor result = torch::empty({n}, torch::kInt64),
               buffer = torch::empty({std::min(n, chunk), vocab}, hidden.options());
  for (std::int64_t first = 0; first < n; first += chunk) {
    const std::int64_t count = std::min(chunk, n - first);
    const Tensor some = hidden.narrow(0, first, count);
    Tensor logits = buffer.narrow(0, 0, count);
    multiply(logits, some, head);
    with_storage(hidden.scalar_type(), [&]<typename T>(T) {
      for_rows(count, vocab, [&](std::int64_t begin, std::int64_t rows) {
        for (std::int64_t i = begin; i < begin + rows; ++i)
          result.data_ptr<std::int64_t>()[first + i] =
              argmax_row(data_of<T>(logits) + i * vocab, vocab, data_of<T>(some) + i * width,
                         data_of<T>(head), width);
      });
    });
  }
  return result;
}

}  // namespace headrace
