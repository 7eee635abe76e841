#include "nn/files/cpu_attention.h"

#include "headrace/error.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "nn/files/cpu_kernels_inl.h"

#define HEADRACE_BF16_DOT __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

namespace headrace {
namespace {

using kernels::store;
using std::int64_t;

constexpr int64_t kQueries = 32;  // queries a block: its scores stay in the first-level cache
constexpr int64_t kColumns = 64;  // columns of a product at a time: four vectors

int64_t round_up(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// Two neighbours in the direction that a product sums over, as the dot instruction takes them.
std::uint32_t pair(Bf16 first, Bf16 second) {
  return first.bits | static_cast<std::uint32_t>(second.bits) << 16;
}

// c[m][0, 16 * kVectors) = sum over k of a[m][k] * b[k][..]; k counts pairs.
template <int kRows, int kVectors>
HEADRACE_BF16_DOT void tile(const Bf16* a, int64_t lda, const std::uint32_t* b, int64_t ldb,
                            float* c, int64_t ldc, int64_t pairs) {
  __m512 sums[kRows][kVectors];
  for (auto& row : sums)
    for (auto& sum : row) sum = _mm512_setzero_ps();
  for (int64_t k = 0; k < pairs; ++k) {
    __m512i right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = _mm512_loadu_si512(b + k * ldb + 16 * v);
    for (int m = 0; m < kRows; ++m) {
      int left;
      std::memcpy(&left, a + m * lda + 2 * k, sizeof(left));
      for (int v = 0; v < kVectors; ++v)
        sums[m][v] =
            _mm512_dpbf16_ps(sums[m][v], reinterpret_cast<__m512bh>(_mm512_set1_epi32(left)),
                             reinterpret_cast<__m512bh>(right[v]));
    }
  }
  for (int m = 0; m < kRows; ++m)
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + m * ldc + 16 * v, sums[m][v]);
}

template <int kVectors>
void columns(const Bf16* a, int64_t lda, const std::uint32_t* b, int64_t ldb, float* c, int64_t ldc,
             int64_t rows, int64_t pairs) {
  int64_t m = 0;
  for (; m + 4 <= rows; m += 4)
    tile<4, kVectors>(a + m * lda, lda, b, ldb, c + m * ldc, ldc, pairs);
  for (; m < rows; ++m) tile<1, kVectors>(a + m * lda, lda, b, ldb, c + m * ldc, ldc, pairs);
}

// c [rows, width] = a [rows, 2 * pairs] b [pairs, width]; width is a multiple of 16.
void product(const Bf16* a, int64_t lda, const std::uint32_t* b, int64_t ldb, float* c, int64_t ldc,
             int64_t rows, int64_t width, int64_t pairs) {
  int64_t n = 0;
  for (; n + kColumns <= width; n += kColumns)
    columns<kColumns / 16>(a, lda, b + n, ldb, c + n, ldc, rows, pairs);
  for (; n < width; n += 16) columns<1>(a, lda, b + n, ldb, c + n, ldc, rows, pairs);
}

// out = exp(scale * (scores - their maximum)) over `seen` scores, 0 up to `width`; the sum.
HEADRACE_BF16_DOT float softmax(const float* __restrict scores, int64_t seen, int64_t width,
                                float scale, Bf16* __restrict out) {
  const float most = kernels::maximum(seen, [=](int64_t i) { return scores[i]; });
  for (int64_t i = 0; i < seen; ++i)
    out[i] = store<Bf16>(kernels::exp_approx((scores[i] - most) * scale));
  std::fill(out + seen, out + width, Bf16{});
  return kernels::sum(seen, [=](int64_t i) { return kernels::load(out[i]); });
}

HEADRACE_BF16_DOT void scale_row(const float* __restrict in, int64_t n, float factor,
                                 Bf16* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = store<Bf16>(in[i] * factor);
}

}  // namespace

bool has_bf16_dot() {
  return __builtin_cpu_supports("avx512bf16");
}

void causal_attention(const Bf16* qkv, const AttentionShape& shape, int64_t kv_head, Bf16* out) {
  const int64_t length = shape.length, size = shape.head_dim, padded = round_up(length, kColumns);
  const int64_t stride = (shape.heads + 2 * shape.kv_heads) * size;
  const int64_t group = shape.heads / shape.kv_heads;
  const Bf16* keys = qkv + (shape.heads + kv_head) * size;
  const Bf16* values = keys + shape.kv_heads * size;

  // Keys with pairs of dimensions [size / 2, padded], values with pairs of positions [padded / 2,
  // size].
  std::vector<std::uint32_t> key_pairs(static_cast<std::size_t>(size / 2 * padded));
  std::vector<std::uint32_t> value_pairs(static_cast<std::size_t>(padded / 2 * size));
  for (int64_t j = 0; j < length; ++j)
    for (int64_t i = 0; i < size / 2; ++i)
      key_pairs[i * padded + j] = pair(keys[j * stride + 2 * i], keys[j * stride + 2 * i + 1]);
  for (int64_t j = 0; j < length; ++j)
    for (int64_t i = 0; i < size; ++i)
      value_pairs[j / 2 * size + i] |= std::uint32_t{values[j * stride + i].bits} << (j % 2 * 16);

  std::vector<float> scores(static_cast<std::size_t>(kQueries * padded));
  std::vector<float> attended(static_cast<std::size_t>(kQueries * size));
  std::vector<Bf16> shares(scores.size());
  float sums[kQueries];
  const float scale = 1 / std::sqrt(static_cast<float>(size));
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (int64_t first = 0; first < length; first += kQueries) {
      const int64_t rows = std::min(kQueries, length - first),
                    width = round_up(first + rows, kColumns);
      product(qkv + first * stride + head * size, stride, key_pairs.data(), padded, scores.data(),
              padded, rows, width, size / 2);
      for (int64_t r = 0; r < rows; ++r)
        sums[r] = softmax(scores.data() + r * padded, first + r + 1, width, scale,
                          shares.data() + r * padded);
      product(shares.data(), padded, value_pairs.data(), size, attended.data(), size, rows, size,
              width / 2);
      for (int64_t r = 0; r < rows; ++r)
        scale_row(attended.data() + r * size, size, 1 / sums[r],
                  out + ((first + r) * shape.heads + head) * size);
    }
}

}  // namespace headrace

#else

namespace headrace {

bool has_bf16_dot() {
  return false;
}

void causal_attention(const Bf16*, const AttentionShape&, std::int64_t, Bf16*) {
  fail(ErrorCode::internal, "this CPU has no bf16 dot products");
}

}  // namespace headrace

#endif
