// Registers of 64 bytes as a type, for the loops that compilers do not vectorise: reductions, and
// loops over bfloat16 in place. On CPUs with shorter registers the compiler splits them.
#pragma once

#include <cmath>
#include <cstdint>

#include "nn/files/wide_inl.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // registers are passed only to what is inlined

namespace headrace::kernels {

template <typename A>
struct Register {
  typedef A type __attribute__((vector_size(64), aligned(alignof(A)), may_alias));
};
using Floats = Register<float>::type;
using Doubles = Register<double>::type;
using Words = Register<std::uint32_t>::type;
typedef std::uint16_t Halves __attribute__((vector_size(32), aligned(2), may_alias));

// Elements of a register.
template <typename A>
constexpr std::int64_t lanes = 64 / sizeof(A);

HEADRACE_INLINE Floats load_register(const float* x) {
  return *reinterpret_cast<const Floats*>(x);
}
HEADRACE_INLINE Doubles load_register(const double* x) {
  return *reinterpret_cast<const Doubles*>(x);
}
HEADRACE_INLINE Floats load_register(const Bf16* x) {
  const Words bits = __builtin_convertvector(*reinterpret_cast<const Halves*>(x), Words) << 16;
  return reinterpret_cast<Floats>(bits);
}

HEADRACE_INLINE void store_register(Floats v, float* x) {
  *reinterpret_cast<Floats*>(x) = v;
}
HEADRACE_INLINE void store_register(Doubles v, double* x) {
  *reinterpret_cast<Doubles*>(x) = v;
}
// Rounds as store<Bf16>; v is no NaN.
HEADRACE_INLINE void store_register(Floats v, Bf16* x) {
  const Words bits = reinterpret_cast<Words>(v);
  const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  *reinterpret_cast<Halves*>(x) = __builtin_convertvector(rounded, Halves);
}

HEADRACE_INLINE Floats larger(Floats a, Floats b) {
  return a > b ? a : b;
}
HEADRACE_INLINE Doubles larger(Doubles a, Doubles b) {
  return a > b ? a : b;
}

// exp(x) for x <= 0, as exp_approx: within 2 ulp, and exp(-87) below -87.
HEADRACE_INLINE Floats exp_register(Floats x) {
  x = larger(x, Floats{} - 87.0f);
  const Floats shifted =
      x * 1.44269504f + 12582912.0f;  // leaves the rounded integer in the low bits
  const Words n = reinterpret_cast<Words>(shifted) - 0x4b400000u;
  const Floats whole = shifted - 12582912.0f;
  const Floats r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * reinterpret_cast<Floats>((n + 127u) << 23);
}
HEADRACE_INLINE Doubles exp_register(Doubles x) {
  for (int i = 0; i < lanes<double>; ++i) x[i] = std::exp(x[i]);
  return x;
}

// Largest and sum of x[0, n), n > 0: two registers of partial results, then what is left.
template <typename T>
HEADRACE_INLINE Wide<T> largest_of(const T* x, std::int64_t n) {
  using A = Wide<T>;
  constexpr std::int64_t w = lanes<A>;
  A largest = kernels::load(x[0]);
  std::int64_t i = 0;
  if (n >= 2 * w) {
    auto first = load_register(x), second = load_register(x + w);
    for (i = 2 * w; i + 2 * w <= n; i += 2 * w) {
      first = larger(first, load_register(x + i));
      second = larger(second, load_register(x + i + w));
    }
    first = larger(first, second);
    for (std::int64_t j = 0; j < w; ++j) largest = first[j] > largest ? first[j] : largest;
  }
  for (; i < n; ++i) {
    const A value = kernels::load(x[i]);
    largest = value > largest ? value : largest;
  }
  return largest;
}

// x = exp(x - shift) in place, for x <= shift; returns the sum, before any rounding to T.
template <typename T>
HEADRACE_INLINE double exponentials(T* x, std::int64_t n, Wide<T> shift) {
  using A = Wide<T>;
  using V = typename Register<A>::type;
  constexpr std::int64_t w = lanes<A>;
  V first{}, second{};
  std::int64_t i = 0;
  for (; i + 2 * w <= n; i += 2 * w) {
    const V a = exp_register(load_register(x + i) - shift),
            b = exp_register(load_register(x + i + w) - shift);
    store_register(a, x + i);
    store_register(b, x + i + w);
    first += a;
    second += b;
  }
  V rest{};
  for (std::int64_t j = 0; i + j < n; ++j) {
    V value{};
    value[0] = kernels::load(x[i + j]) - shift;
    value = exp_register(value);
    if constexpr (std::is_same_v<T, Bf16>) {
      x[i + j] = kernels::store<Bf16>(value[0]);
    } else {
      x[i + j] = value[0];
    }
    rest[j % w] += value[0];
  }
  first += second + rest;
  double total = 0;
  for (std::int64_t j = 0; j < w; ++j) total += static_cast<double>(first[j]);
  return total;
}

}  // namespace headrace::kernels
