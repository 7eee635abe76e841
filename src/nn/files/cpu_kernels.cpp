#include "nn/files/cpu_kernels.h"

#include <cmath>

#include "nn/files/cpu_kernels_inl.h"

namespace headrace {
namespace {

using std::int64_t;
using namespace kernels;

template <typename In, typename Out>
HEADRACE_INLINE void convert_row(const In* __restrict in, int64_t n, Out* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = store<Out>(load(in[i]));
}

template <typename In, typename Out>
HEADRACE_INLINE void store_rows_of(const In* in, int64_t rows, int64_t width, Out* out,
                                   int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) convert_row(in + r * width, width, out + r * stride);
}

template <typename T>
HEADRACE_INLINE void gather_rows_of(const T* table, const int64_t* ids, int64_t rows, int64_t width,
                                    float* out) {
  for (int64_t r = 0; r < rows; ++r) convert_row(table + ids[r] * width, width, out + r * width);
}

template <typename In, typename Out>
HEADRACE_INLINE void add_rms_norm_row(float* __restrict residual, const In* __restrict delta,
                                      const float* __restrict weight, double eps, int64_t width,
                                      Out* __restrict out) {
  if (delta != nullptr)
    for (int64_t i = 0; i < width; ++i) residual[i] += load(delta[i]);
  const double squares = sum(width, [=](int64_t i) { return residual[i] * residual[i]; });
  const auto scale =
      static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(width) + eps));
  for (int64_t i = 0; i < width; ++i) out[i] = store<Out>(residual[i] * scale * weight[i]);
}

template <typename In, typename Out>
HEADRACE_INLINE void add_rms_norm_of(float* residual, const In* delta, const float* weight,
                                     double eps, int64_t rows, int64_t width, Out* out) {
  for (int64_t r = 0; r < rows; ++r)
    add_rms_norm_row(residual + r * width, delta == nullptr ? nullptr : delta + r * width, weight,
                     eps, width, out + r * width);
}

template <typename T>
HEADRACE_INLINE void silu_mul_row(const T* __restrict gate, const T* __restrict up, int64_t width,
                                  T* __restrict out) {
  for (int64_t i = 0; i < width; ++i) {
    const float g = load(gate[i]);
    out[i] = store<T>(g * sigmoid(g) * load(up[i]));
  }
}

template <typename T>
HEADRACE_INLINE void silu_mul_of(const T* gate_up, int64_t rows, int64_t width, T* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* gate = gate_up + r * 2 * width;
    silu_mul_row(gate, gate + width, width, out + r * width);
  }
}

template <typename T>
HEADRACE_INLINE void rope_head(T* __restrict low, T* __restrict high, int64_t half,
                               const float* __restrict cosine, const float* __restrict sine) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = load(low[i]), b = load(high[i]);
    low[i] = store<T>(a * cosine[i] - b * sine[i]);
    high[i] = store<T>(b * cosine[i] + a * sine[i]);
  }
}

template <typename T>
HEADRACE_INLINE void rope_of(T* x, int64_t rows, int64_t stride, int64_t heads, int64_t head_dim,
                             const float* cosine, const float* sine) {
  const int64_t half = head_dim / 2;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h) {
      T* low = x + r * stride + h * head_dim;
      rope_head(low, low + half, half, cosine + r * half, sine + r * half);
    }
}

}  // namespace

HEADRACE_CLONES void convert(const float* in, int64_t n, Bf16* out) {
  convert_row(in, n, out);
}
HEADRACE_CLONES void convert(const Bf16* in, int64_t n, float* out) {
  convert_row(in, n, out);
}
HEADRACE_CLONES void convert(const float* in, int64_t n, float* out) {
  convert_row(in, n, out);
}

HEADRACE_CLONES void store_rows(const float* in, int64_t rows, int64_t width, float* out,
                                int64_t stride) {
  store_rows_of(in, rows, width, out, stride);
}
HEADRACE_CLONES void store_rows(const float* in, int64_t rows, int64_t width, Bf16* out,
                                int64_t stride) {
  store_rows_of(in, rows, width, out, stride);
}

HEADRACE_CLONES void gather_rows(const float* table, const int64_t* ids, int64_t rows,
                                 int64_t width, float* out) {
  gather_rows_of(table, ids, rows, width, out);
}
HEADRACE_CLONES void gather_rows(const Bf16* table, const int64_t* ids, int64_t rows, int64_t width,
                                 float* out) {
  gather_rows_of(table, ids, rows, width, out);
}

HEADRACE_CLONES void add_rms_norm(float* residual, const float* delta, const float* weight,
                                  double eps, int64_t rows, int64_t width, float* out) {
  add_rms_norm_of(residual, delta, weight, eps, rows, width, out);
}
HEADRACE_CLONES void add_rms_norm(float* residual, const Bf16* delta, const float* weight,
                                  double eps, int64_t rows, int64_t width, Bf16* out) {
  add_rms_norm_of(residual, delta, weight, eps, rows, width, out);
}
HEADRACE_CLONES void add_rms_norm(float* residual, const Bf16* delta, const float* weight,
                                  double eps, int64_t rows, int64_t width, float* out) {
  add_rms_norm_of(residual, delta, weight, eps, rows, width, out);
}

HEADRACE_CLONES void silu_mul(const float* gate_up, int64_t rows, int64_t width, float* out) {
  silu_mul_of(gate_up, rows, width, out);
}
HEADRACE_CLONES void silu_mul(const Bf16* gate_up, int64_t rows, int64_t width, Bf16* out) {
  silu_mul_of(gate_up, rows, width, out);
}

void rope_tables(double base, const int64_t* positions, int64_t rows, int64_t head_dim,
                 float* cosine, float* sine) {
  const int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    for (int64_t r = 0; r < rows; ++r) {
      const double angle = static_cast<double>(positions[r]) * frequency;
      cosine[r * half + i] = static_cast<float>(std::cos(angle));
      sine[r * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

HEADRACE_CLONES void rope(float* x, int64_t rows, int64_t stride, int64_t heads, int64_t head_dim,
                          const float* cosine, const float* sine) {
  rope_of(x, rows, stride, heads, head_dim, cosine, sine);
}
HEADRACE_CLONES void rope(Bf16* x, int64_t rows, int64_t stride, int64_t heads, int64_t head_dim,
                          const float* cosine, const float* sine) {
  rope_of(x, rows, stride, heads, head_dim, cosine, sine);
}

}  // namespace headrace
