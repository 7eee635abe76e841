// Building blocks of cpu_kernels.cpp: inlined into functions that are compiled once for each level
// of the instruction set.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "nn/files/cpu_kernels.h"

// One copy of a function for each level of x86-64, chosen when the program loads. Sanitizers cannot
// run the code that chooses, and clang has another syntax for the levels.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HEADRACE_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HEADRACE_CLONES
#endif
#define HEADRACE_INLINE inline __attribute__((always_inline))

namespace headrace::kernels {

HEADRACE_INLINE float load(float x) {
  return x;
}
HEADRACE_INLINE float load(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

template <typename T>
HEADRACE_INLINE T store(float x);
template <>
HEADRACE_INLINE float store<float>(float x) {
  return x;
}
template <>
HEADRACE_INLINE Bf16 store<Bf16>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  // Rounding could carry a NaN's payload into the sign or away: keep its upper half, made quiet.
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<std::uint16_t>((nan ? bits | 0x400000u : rounded) >> 16)};
}

// exp(x) for |x| up to 87 (beyond: the value there), within 1 ulp or so, in operations that
// vectorise: 2^n * e^r with n = round(x / ln 2), e^r by a polynomial (Cephes' coefficients).
HEADRACE_INLINE float exp_approx(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 87.0f ? 87.0f : x;
  // Adding 1.5 * 2^23 leaves the rounded integer in the low bits of the sum.
  const float shifted = x * 1.44269504f + 12582912.0f;
  const std::uint32_t n = std::bit_cast<std::uint32_t>(shifted) - 0x4b400000u;
  const float whole = shifted - 12582912.0f;
  const float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * std::bit_cast<float>((n + 127u) << 23);
}

HEADRACE_INLINE float sigmoid(float x) {
  return 1.0f / (1.0f + exp_approx(-x));
}

// sum of f(i) over [0, n) in 16 partial sums: the order that every vector width can follow.
template <typename A = float, typename F>
HEADRACE_INLINE A sum(std::int64_t n, F f) {
  constexpr std::int64_t lanes = 16;
  A partial[lanes] = {};
  const std::int64_t whole = n / lanes * lanes;
  for (std::int64_t i = 0; i < whole; i += lanes)
    for (std::int64_t j = 0; j < lanes; ++j) partial[j] += f(i + j);
  for (std::int64_t j = 0; whole + j < n; ++j) partial[j] += f(whole + j);
  for (std::int64_t half = lanes / 2; half > 0; half /= 2)
    for (std::int64_t j = 0; j < half; ++j) partial[j] += partial[j + half];
  return partial[0];
}

// The largest f(i) over [0, n), n > 0.
template <typename F>
HEADRACE_INLINE float maximum(std::int64_t n, F f) {
  constexpr std::int64_t lanes = 16;
  float partial[lanes];
  for (std::int64_t j = 0; j < lanes; ++j) partial[j] = f(0);
  const std::int64_t whole = n / lanes * lanes;
  for (std::int64_t i = 0; i < whole; i += lanes)
    for (std::int64_t j = 0; j < lanes; ++j)
      partial[j] = partial[j] < f(i + j) ? f(i + j) : partial[j];
  float most = partial[0];
  for (std::int64_t j = 1; j < lanes; ++j) most = most < partial[j] ? partial[j] : most;
  for (std::int64_t i = whole; i < n; ++i) most = most < f(i) ? f(i) : most;
  return most;
}

}  // namespace headrace::kernels
