#include "nn/files/adamw.h"

#include <algorithm>
#include <cmath>

#include "nn/files/wide_inl.h"

namespace headrace {

using std::int64_t;
using namespace kernels;

namespace {

template <typename T>
HEADRACE_INLINE void sum_scaled_of(std::span<const T* const> x, float factor,
                                   std::span<float> out) {
  // Pieces stay in the first cache while the terms are added.
  constexpr std::size_t piece = 2048;
  for (std::size_t begin = 0; begin < out.size(); begin += piece) {
    const std::size_t n = std::min(piece, out.size() - begin);
    float sum[piece] = {};
    for (const T* term : x)
      for (std::size_t i = 0; i < n; ++i) sum[i] += load(term[begin + i]);
    for (std::size_t i = 0; i < n; ++i) out[begin + i] = sum[i] * factor;
  }
}

}  // namespace

HEADRACE_CLONES void adamw(const AdamWStep& step, const float* __restrict gradient, int64_t n,
                           float* __restrict weights, float* __restrict m, float* __restrict v) {
  const AdamWStep s = step;
  const float rate1 = s.learning_rate / s.correction1, root2 = 1 / std::sqrt(s.correction2);
  for (int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * s.gradient_scale;
    m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
    v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
    const float decayed = weights[i] - s.learning_rate * s.weight_decay * weights[i];
    weights[i] = decayed - rate1 * m[i] / (std::sqrt(v[i]) * root2 + s.eps);
  }
}

HEADRACE_CLONES double sum_of_squares(const float* x, int64_t n) {
  constexpr int64_t chunk = 4096;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += chunk) {
    const float* from = x + begin;
    total += static_cast<double>(
        sum<float>(std::min(chunk, n - begin), [=](int64_t i) { return from[i] * from[i]; }));
  }
  return total;
}

HEADRACE_CLONES void sum_scaled(std::span<const float* const> x, float factor,
                                std::span<float> out) {
  sum_scaled_of(x, factor, out);
}

HEADRACE_CLONES void sum_scaled(std::span<const Bf16* const> x, float factor,
                                std::span<float> out) {
  sum_scaled_of(x, factor, out);
}

}  // namespace headrace
