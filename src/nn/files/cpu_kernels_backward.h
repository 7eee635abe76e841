// Fused elementwise kernels with gradients, for training on the CPU, without libtorch.
//
// T is the storage: float, Bf16 or double. Arithmetic is fp32, and fp64 for double (tests). Rows
// are contiguous; pointers of one call do not overlap. A row's result depends on that row alone;
// weight gradients add up over the rows of a call in their order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "nn/files/cpu_kernels.h"

namespace headrace {

// What arithmetic on T is done in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// sum = x + delta, rounded to T (skipped where delta is null; sum is then not touched and may be
// null); out = sum / rms(sum) * weight with rms(y) = sqrt(mean(y^2) + eps).
template <typename T>
void add_rms_norm_rows(const T* x, const T* delta, const T* weight, double eps, std::int64_t rows,
                       std::int64_t width, T* sum, T* out);

// From the gradients of out and of sum (may be null: zero) to that of sum's inputs, and adds to
// dweight.
template <typename T>
void add_rms_norm_backward(const T* sum, const T* weight, const T* dout, const T* dsum, double eps,
                           std::int64_t rows, std::int64_t width, T* dx, Wide<T>* dweight);

// out = gate * sigmoid(gate) * up, n elements.
template <typename T>
void silu_mul_elements(const T* gate, const T* up, std::int64_t n, T* out);

template <typename T>
void silu_mul_backward(const T* gate, const T* up, const T* dout, std::int64_t n, T* dgate, T* dup);

}  // namespace headrace
