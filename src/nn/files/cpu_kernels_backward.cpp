#include "nn/files/cpu_kernels_backward.h"

#include "nn/files/wide_inl.h"

namespace headrace {

using std::int64_t;
using namespace kernels;

template <typename T>
HEADRACE_CLONES void add_rms_norm_rows(const T* x, const T* delta, const T* weight, double eps,
                                       int64_t rows, int64_t width, T* sum, T* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * width;
    if (delta != nullptr) {
      const T* other = delta + r * width;
      T* __restrict to = sum + r * width;
      for (int64_t i = 0; i < width; ++i) to[i] = narrow<T>(load(row[i]) + load(other[i]));
      row = to;
    }
    const Wide<T> scale = inverse_rms(row, width, eps);
    T* __restrict to = out + r * width;
    for (int64_t i = 0; i < width; ++i) to[i] = narrow<T>(load(row[i]) * scale * load(weight[i]));
  }
}

template <typename T>
HEADRACE_CLONES void add_rms_norm_backward(const T* sum, const T* weight, const T* dout,
                                           const T* dsum, double eps, int64_t rows, int64_t width,
                                           T* dx, Wide<T>* __restrict dweight) {
  using A = Wide<T>;
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = sum + r * width;
    const T* dy = dout + r * width;
    const T* through = dsum == nullptr ? nullptr : dsum + r * width;
    T* __restrict to = dx + r * width;
    const A scale = inverse_rms(x, width, eps);
    const A dot = kernels::sum<A>(
        width, [=](int64_t i) { return load(dy[i]) * load(weight[i]) * load(x[i]); });
    const A shrink = dot * scale * scale / static_cast<A>(width);
    for (int64_t i = 0; i < width; ++i) dweight[i] += load(dy[i]) * load(x[i]) * scale;
    for (int64_t i = 0; i < width; ++i) {
      const A own = scale * (load(dy[i]) * load(weight[i]) - load(x[i]) * shrink);
      to[i] = narrow<T>(through == nullptr ? own : own + load(through[i]));
    }
  }
}

template <typename T>
HEADRACE_CLONES void silu_mul_elements(const T* __restrict gate, const T* __restrict up, int64_t n,
                                       T* __restrict out) {
  using A = Wide<T>;
  for (int64_t i = 0; i < n; ++i) {
    const A g = load(gate[i]);
    out[i] = narrow<T>(g / (A(1) + exp_approx(-g)) * load(up[i]));
  }
}

template <typename T>
HEADRACE_CLONES void silu_mul_backward(const T* __restrict gate, const T* __restrict up,
                                       const T* __restrict dout, int64_t n, T* __restrict dgate,
                                       T* __restrict dup) {
  using A = Wide<T>;
  for (int64_t i = 0; i < n; ++i) {
    const A g = load(gate[i]), dy = load(dout[i]);
    const A s = A(1) / (A(1) + exp_approx(-g));
    dup[i] = narrow<T>(dy * g * s);
    dgate[i] = narrow<T>(dy * load(up[i]) * s * (A(1) + g * (A(1) - s)));
  }
}

#define HEADRACE_INSTANTIATE(T)                                                                    \
  template void add_rms_norm_rows(const T*, const T*, const T*, double, int64_t, int64_t, T*, T*); \
  template void add_rms_norm_backward(const T*, const T*, const T*, const T*, double, int64_t,     \
                                      int64_t, T*, Wide<T>*);                                      \
  template void silu_mul_elements(const T*, const T*, int64_t, T*);                                \
  template void silu_mul_backward(const T*, const T*, const T*, int64_t, T*, T*);
HEADRACE_INSTANTIATE(float)
HEADRACE_INSTANTIATE(Bf16)
HEADRACE_INSTANTIATE(double)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
