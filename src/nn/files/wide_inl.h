// What kernels need that are generic over their storage, double included: gradients are checked
// against finite differences in double, with the code that trains in bfloat16.
#pragma once

#include <cmath>
#include <cstdint>

#include "nn/files/cpu_kernels_backward.h"
#include "nn/files/cpu_kernels_inl.h"

namespace headrace::kernels {

HEADRACE_INLINE double load(double x) {
  return x;
}
HEADRACE_INLINE double exp_approx(double x) {
  return std::exp(x);
}

template <typename T>
HEADRACE_INLINE T narrow(Wide<T> x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return store<T>(x);
  }
}

// 1 / sqrt(mean of squares + eps).
template <typename T>
HEADRACE_INLINE Wide<T> inverse_rms(const T* x, std::int64_t width, double eps) {
  using A = Wide<T>;
  const A squares = sum<A>(width, [=](std::int64_t i) { return load(x[i]) * load(x[i]); });
  return static_cast<A>(1.0 /
                        std::sqrt(static_cast<double>(squares) / static_cast<double>(width) + eps));
}

}  // namespace headrace::kernels
