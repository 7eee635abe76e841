// Matrix products of tiles that lie in the caches, in registers of 64 bytes: attention's inner
// loops. To be inlined into a HEADRACE_CLONES function (cpu_kernels_inl.h).
#pragma once

#include <cstdint>

#include "nn/files/register_inl.h"

namespace headrace::kernels {

// n rounded up to whole registers.
template <typename A>
constexpr std::int64_t padded(std::int64_t n) {
  return (n + lanes<A> - 1) / lanes<A> * lanes<A>;
}

template <typename A, int rows, int columns>
HEADRACE_INLINE void gemm_tile(std::int64_t k, const A* a, std::int64_t a_row,
                               std::int64_t a_column, const A* b, std::int64_t b_row, A* c,
                               std::int64_t c_row, bool accumulate) {
  using V = typename Register<A>::type;
  V sum[rows][columns];
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      sum[i][j] = accumulate ? *reinterpret_cast<const V*>(c + i * c_row + j * lanes<A>) : V{};
  for (std::int64_t p = 0; p < k; ++p) {
    V from_b[columns];
    for (int j = 0; j < columns; ++j)
      from_b[j] = *reinterpret_cast<const V*>(b + p * b_row + j * lanes<A>);
    for (int i = 0; i < rows; ++i) {
      const A from_a = a[i * a_row + p * a_column];
      for (int j = 0; j < columns; ++j) sum[i][j] += from_a * from_b[j];
    }
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      *reinterpret_cast<V*>(c + i * c_row + j * lanes<A>) = sum[i][j];
}

template <typename A, int columns>
HEADRACE_INLINE void gemm_panel(std::int64_t m, std::int64_t k, const A* a, std::int64_t a_row,
                                std::int64_t a_column, const A* b, std::int64_t b_row, A* c,
                                std::int64_t c_row, bool accumulate) {
  constexpr int rows = 6;  // 6 x 4 sums, 4 columns of b and one of a: 29 of 32 registers
  std::int64_t i = 0;
  for (; i + rows <= m; i += rows)
    gemm_tile<A, rows, columns>(k, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row,
                                accumulate);
  for (; i < m; ++i)
    gemm_tile<A, 1, columns>(k, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row,
                             accumulate);
}

// c[m, n] = a[m, k] b[k, n], added to c where `accumulate`. a may be a transposed view (any
// strides); b and c are contiguous along n, and n is a multiple of lanes<A>.
template <typename A>
HEADRACE_INLINE void small_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const A* a,
                                std::int64_t a_row, std::int64_t a_column, const A* b,
                                std::int64_t b_row, A* c, std::int64_t c_row, bool accumulate) {
  std::int64_t j = 0;
  for (; j + 4 * lanes<A> <= n; j += 4 * lanes<A>)
    gemm_panel<A, 4>(m, k, a, a_row, a_column, b + j, b_row, c + j, c_row, accumulate);
  for (; j < n; j += lanes<A>)
    gemm_panel<A, 1>(m, k, a, a_row, a_column, b + j, b_row, c + j, c_row, accumulate);
}

}  // namespace headrace::kernels
