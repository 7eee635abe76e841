#include "nn/files/block_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "nn/files/small_gemm_inl.h"

namespace headrace {
namespace {

using std::int64_t;
using namespace kernels;

// What turns a stored head into a vector of the scores: norm weight, and the rotation of its
// position.
template <typename T>
struct HeadTransform {
  const T* weight;
  const Wide<T>*cosine, *sine;
  int64_t head_dim;
  double eps;
  HeadTransform at(int64_t position) const {
    return {weight, cosine + position * (head_dim / 2), sine + position * (head_dim / 2), head_dim,
            eps};
  }
};

template <typename T>
HEADRACE_INLINE void norm_and_rotate(const HeadTransform<T>& t, const T* x, Wide<T> factor,
                                     Wide<T>* __restrict out) {
  const int64_t half = t.head_dim / 2;
  const Wide<T> scale = inverse_rms(x, t.head_dim, t.eps) * factor;
  for (int64_t i = 0; i < half; ++i) {
    const Wide<T> low = load(x[i]) * scale * load(t.weight[i]);
    const Wide<T> high = load(x[i + half]) * scale * load(t.weight[i + half]);
    out[i] = low * t.cosine[i] - high * t.sine[i];
    out[i + half] = high * t.cosine[i] + low * t.sine[i];
  }
}

// From the gradient of norm_and_rotate's output (overwritten: scratch) to that of x.
template <typename T>
HEADRACE_INLINE void norm_and_rotate_backward(const HeadTransform<T>& t, const T* x, Wide<T> factor,
                                              Wide<T>* dout, T* __restrict dx,
                                              Wide<T>* __restrict dweight) {
  using A = Wide<T>;
  const int64_t half = t.head_dim / 2;
  const A scale = inverse_rms(x, t.head_dim, t.eps);
  for (int64_t i = 0; i < half; ++i) {
    const A low = dout[i] * factor, high = dout[i + half] * factor;
    dout[i] = low * t.cosine[i] + high * t.sine[i];
    dout[i + half] = high * t.cosine[i] - low * t.sine[i];
  }
  const A dot =
      sum<A>(t.head_dim, [&](int64_t i) { return dout[i] * load(t.weight[i]) * load(x[i]); });
  const A shrink = dot * scale * scale / static_cast<A>(t.head_dim);
  for (int64_t i = 0; i < t.head_dim; ++i) {
    dweight[i] += dout[i] * load(x[i]) * scale;
    dx[i] = narrow<T>(scale * (dout[i] * load(t.weight[i]) - load(x[i]) * shrink));
  }
}

template <typename T>
HEADRACE_INLINE void widen(const T* x, int64_t n, Wide<T>* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = load(x[i]);
}

// Rows [rows][width] and their transpose [width][columns >= rows]; padding stays zero.
template <typename A>
HEADRACE_INLINE void transpose(const A* x, int64_t rows, int64_t width, int64_t row, A* out,
                               int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < width; ++i) out[i * columns + r] = x[r * row + i];
}

// The work of one key/value head of one sequence. Scores of a block are [group * block][context |
// own block], both parts padded to whole registers; row g * block + slot.
template <typename T>
struct HeadWork {
  using A = Wide<T>;
  const BlockAttentionShape& shape;
  const BlockAttentionRow& row;
  const BlockAttentionInputs<T>& in;
  const int64_t kv_head, dim, dim_p, block, block_p, queries, context_p, q_stride, kv_stride;
  const A scale;
  const HeadTransform<T> q_transform, k_transform;
  std::vector<A> k, k_t, v;              // context: [context][dim_p], [dim][context_p]
  std::vector<A> own_k, own_k_t, own_v;  // block: [block][dim_p], [dim][block_p]
  std::vector<A> q, scores;              // [queries][dim_p], [queries][context_p + block_p]

  HeadWork(const BlockAttentionShape& shape_, const BlockAttentionRow& row_,
           const BlockAttentionInputs<T>& in_, int64_t kv_head_)
      : shape(shape_),
        row(row_),
        in(in_),
        kv_head(kv_head_),
        dim(shape_.head_dim),
        dim_p(padded<A>(dim)),
        block(shape_.block),
        block_p(padded<A>(block)),
        queries(shape_.group() * block),
        context_p(padded<A>(row_.context)),
        q_stride(shape_.heads * dim),
        kv_stride(shape_.kv_heads * dim),
        scale(static_cast<A>(1.0 / std::sqrt(static_cast<double>(dim)))),
        q_transform{in_.q_norm, in_.cosine, in_.sine, dim, shape_.norm_eps},
        k_transform{in_.k_norm, in_.cosine, in_.sine, dim, shape_.norm_eps},
        k(row_.context * dim_p),
        k_t(dim * context_p),
        v(row_.context * dim_p),
        own_k(block * dim_p),
        own_k_t(dim * block_p),
        own_v(block * dim_p),
        q(queries * dim_p),
        scores(queries * stride()) {}

  int64_t stride() const { return context_p + block_p; }
  int64_t kv_at(int64_t r) const { return r * kv_stride + kv_head * dim; }
  int64_t q_at(int64_t b, int64_t query) const {
    return (b * block + query % block) * q_stride + (kv_head * shape.group() + query / block) * dim;
  }
  int64_t log_sum_at(int64_t b, int64_t query) const {
    return (b * block + query % block) * shape.heads + kv_head * shape.group() + query / block;
  }
  // Where a block's own scores begin: after the visible context, padded.
  int64_t own_begin(int64_t b) const { return padded<A>(row.anchors[b]); }

  HEADRACE_INLINE void load_context() {
    for (int64_t r = 0; r < row.context; ++r) {
      norm_and_rotate(k_transform.at(r), in.context_k + kv_at(r), A(1), &k[r * dim_p]);
      widen(in.context_v + kv_at(r), dim, &v[r * dim_p]);
    }
    transpose(k.data(), row.context, dim, dim_p, k_t.data(), context_p);
  }

  HEADRACE_INLINE void load_block(int64_t b) {
    const int64_t anchor = row.anchors[b];
    for (int64_t s = 0; s < block; ++s) {
      norm_and_rotate(k_transform.at(anchor + s), in.block_k + kv_at(b * block + s), A(1),
                      &own_k[s * dim_p]);
      widen(in.block_v + kv_at(b * block + s), dim, &own_v[s * dim_p]);
    }
    transpose(own_k.data(), block, dim, dim_p, own_k_t.data(), block_p);
    for (int64_t r = 0; r < queries; ++r)
      norm_and_rotate(q_transform.at(anchor + r % block), in.q + q_at(b, r), scale, &q[r * dim_p]);
  }

  // to[queries][context | block] = rows times the transposed keys (or values).
  HEADRACE_INLINE void times_keys(int64_t b, const A* rows, const A* context_t, const A* own_t,
                                  A* to) const {
    const int64_t begin = own_begin(b);
    small_gemm(queries, begin, dim, rows, dim_p, int64_t{1}, context_t, context_p, to, stride(),
               false);
    small_gemm(queries, block_p, dim, rows, dim_p, int64_t{1}, own_t, block_p, to + begin, stride(),
               false);
  }

  // to[queries][dim] = weights[queries][context | block] times values (or keys).
  HEADRACE_INLINE void times_values(int64_t b, const A* weights, const A* context_v, const A* own,
                                    A* to) const {
    small_gemm(queries, dim_p, row.anchors[b], weights, stride(), int64_t{1}, context_v, dim_p, to,
               dim_p, false);
    small_gemm(queries, dim_p, block, weights + own_begin(b), stride(), int64_t{1}, own, dim_p, to,
               dim_p, true);
  }

  // Padding is between and after the two parts: its weights are zero.
  HEADRACE_INLINE void fill_padding(int64_t b, A* score_row, A value) const {
    const int64_t begin = own_begin(b);
    for (int64_t i = row.anchors[b]; i < begin; ++i) score_row[i] = value;
    for (int64_t i = block; i < block_p; ++i) score_row[begin + i] = value;
  }

  // score_row = exp(score_row - shift), padding zero.
  HEADRACE_INLINE void exponentiate(int64_t b, A* score_row, A shift) const {
    fill_padding(b, score_row, shift);
    exponentials(score_row, own_begin(b) + block_p, shift);
    fill_padding(b, score_row, A(0));
  }
};

}  // namespace

template <typename T>
HEADRACE_CLONES void block_attention(const BlockAttentionShape& shape, const BlockAttentionRow& row,
                                     const BlockAttentionInputs<T>& inputs, int64_t kv_head, T* out,
                                     Wide<T>* log_sums) {
  using A = Wide<T>;
  HeadWork<T> work(shape, row, inputs, kv_head);
  std::vector<A> result(work.queries * work.dim_p);
  work.load_context();
  for (int64_t b = 0; b < row.blocks; ++b) {
    work.load_block(b);
    work.times_keys(b, work.q.data(), work.k_t.data(), work.own_k_t.data(), work.scores.data());
    const int64_t n = work.own_begin(b) + work.block_p;
    for (int64_t r = 0; r < work.queries; ++r) {
      A* scores = &work.scores[r * work.stride()];
      work.fill_padding(b, scores, -std::numeric_limits<A>::infinity());
      const A largest = largest_of(scores, n);
      work.exponentiate(b, scores, largest);
      const A total = sum<A>(n, [=](int64_t i) { return scores[i]; });
      for (int64_t i = 0; i < n; ++i) scores[i] *= A(1) / total;
      if (log_sums != nullptr) log_sums[work.log_sum_at(b, r)] = largest + std::log(total);
    }
    work.times_values(b, work.scores.data(), work.v.data(), work.own_v.data(), result.data());
    for (int64_t r = 0; r < work.queries; ++r) {
      T* __restrict to = out + work.q_at(b, r);
      for (int64_t i = 0; i < work.dim; ++i) to[i] = narrow<T>(result[r * work.dim_p + i]);
    }
  }
}

template <typename T>
HEADRACE_CLONES void block_attention_backward(const BlockAttentionShape& shape,
                                              const BlockAttentionRow& row,
                                              const BlockAttentionInputs<T>& inputs,
                                              int64_t kv_head, const Wide<T>* log_sums,
                                              const T* dout,
                                              const BlockAttentionGradients<T>& gradients) {
  using A = Wide<T>;
  HeadWork<T> work(shape, row, inputs, kv_head);
  const int64_t dim = work.dim, dim_p = work.dim_p, block = work.block, queries = work.queries,
                stride = work.stride();
  std::vector<A> v_t(dim * work.context_p), own_v_t(dim * work.block_p), dy(queries * dim_p),
      dq(queries * dim_p);
  std::vector<A> dscores(queries * stride), dk(row.context * dim_p), dv(row.context * dim_p);
  std::vector<A> own_dk(block * dim_p), own_dv(block * dim_p);
  work.load_context();
  transpose(work.v.data(), row.context, dim, dim_p, v_t.data(), work.context_p);

  for (int64_t b = 0; b < row.blocks; ++b) {
    const int64_t anchor = row.anchors[b], begin = work.own_begin(b), n = begin + work.block_p;
    work.load_block(b);
    transpose(work.own_v.data(), block, dim, dim_p, own_v_t.data(), work.block_p);
    for (int64_t r = 0; r < queries; ++r) widen(dout + work.q_at(b, r), dim, &dy[r * dim_p]);
    work.times_keys(b, work.q.data(), work.k_t.data(), work.own_k_t.data(), work.scores.data());
    work.times_keys(b, dy.data(), v_t.data(), own_v_t.data(), dscores.data());
    for (int64_t r = 0; r < queries; ++r) {
      A* weights = &work.scores[r * stride];
      A* __restrict dweights = &dscores[r * stride];
      work.exponentiate(b, weights, log_sums[work.log_sum_at(b, r)]);
      work.fill_padding(b, dweights, A(0));
      const A mean = sum<A>(n, [=](int64_t i) { return weights[i] * dweights[i]; });
      for (int64_t i = 0; i < n; ++i) dweights[i] = weights[i] * (dweights[i] - mean);
    }
    // Transposed views of the weights and of their gradients: column i of the scores is key i.
    const A* weights = work.scores.data();
    small_gemm(anchor, dim_p, queries, weights, int64_t{1}, stride, dy.data(), dim_p, dv.data(),
               dim_p, true);
    small_gemm(block, dim_p, queries, weights + begin, int64_t{1}, stride, dy.data(), dim_p,
               own_dv.data(), dim_p, false);
    const A* dweights = dscores.data();
    small_gemm(anchor, dim_p, queries, dweights, int64_t{1}, stride, work.q.data(), dim_p,
               dk.data(), dim_p, true);
    small_gemm(block, dim_p, queries, dweights + begin, int64_t{1}, stride, work.q.data(), dim_p,
               own_dk.data(), dim_p, false);
    work.times_values(b, dweights, work.k.data(), work.own_k.data(), dq.data());

    for (int64_t r = 0; r < queries; ++r)
      norm_and_rotate_backward(work.q_transform.at(anchor + r % block), inputs.q + work.q_at(b, r),
                               work.scale, &dq[r * dim_p], gradients.q + work.q_at(b, r),
                               gradients.q_norm);
    for (int64_t s = 0; s < block; ++s) {
      const int64_t at = work.kv_at(b * block + s);
      norm_and_rotate_backward(work.k_transform.at(anchor + s), inputs.block_k + at, A(1),
                               &own_dk[s * dim_p], gradients.block_k + at, gradients.k_norm);
      for (int64_t i = 0; i < dim; ++i)
        gradients.block_v[at + i] = narrow<T>(own_dv[s * dim_p + i]);
    }
  }
  for (int64_t r = 0; r < row.context; ++r) {
    const int64_t at = work.kv_at(r);
    norm_and_rotate_backward(work.k_transform.at(r), inputs.context_k + at, A(1), &dk[r * dim_p],
                             gradients.context_k + at, gradients.k_norm);
    for (int64_t i = 0; i < dim; ++i) gradients.context_v[at + i] = narrow<T>(dv[r * dim_p + i]);
  }
}

template <typename A>
void rotation_tables(double base, int64_t positions, int64_t head_dim, A* cosine, A* sine) {
  const int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    for (int64_t p = 0; p < positions; ++p) {
      cosine[p * half + i] = static_cast<A>(std::cos(static_cast<double>(p) * frequency));
      sine[p * half + i] = static_cast<A>(std::sin(static_cast<double>(p) * frequency));
    }
  }
}

#define HEADRACE_INSTANTIATE(T)                                                                   \
  template void block_attention(const BlockAttentionShape&, const BlockAttentionRow&,             \
                                const BlockAttentionInputs<T>&, int64_t, T*, Wide<T>*);           \
  template void block_attention_backward(const BlockAttentionShape&, const BlockAttentionRow&,    \
                                         const BlockAttentionInputs<T>&, int64_t, const Wide<T>*, \
                                         const T*, const BlockAttentionGradients<T>&);
HEADRACE_INSTANTIATE(float)
HEADRACE_INSTANTIATE(Bf16)
HEADRACE_INSTANTIATE(double)
#undef HEADRACE_INSTANTIATE
template void rotation_tables(double, int64_t, int64_t, float*, float*);
template void rotation_tables(double, int64_t, int64_t, double*, double*);

}  // namespace headrace
