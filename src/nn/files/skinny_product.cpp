#include "nn/files/skinny_product.h"

#include <algorithm>

#include "nn/files/cpu_kernels_inl.h"
#include "nn/files/register_inl.h"

namespace headrace {

using std::int64_t;
using namespace kernels;

namespace {

// rows x columns dot products at a time, a register of partial sums each; 4 x 4 of them and 8
// operands fit.
template <int rows, int columns>
HEADRACE_INLINE void dots(const float* x, const float* w, int64_t k, float* out, int64_t out_row) {
  Floats sum[rows][columns] = {};
  const int64_t whole = k / lanes<float> * lanes<float>;
  for (int64_t p = 0; p < whole; p += lanes<float>) {
    Floats from_w[columns];
    for (int j = 0; j < columns; ++j) from_w[j] = load_register(w + j * k + p);
    for (int i = 0; i < rows; ++i) {
      const Floats from_x = load_register(x + i * k + p);
      for (int j = 0; j < columns; ++j) sum[i][j] += from_x * from_w[j];
    }
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      float total = 0;
      for (int lane = 0; lane < lanes<float>; ++lane) total += sum[i][j][lane];
      for (int64_t p = whole; p < k; ++p) total += x[i * k + p] * w[j * k + p];
      out[i * out_row + j] = total;
    }
}

template <int columns>
HEADRACE_INLINE void all_rows(const float* x, int64_t m, const float* w, int64_t k, float* out,
                              int64_t out_row) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) dots<4, columns>(x + i * k, w, k, out + i * out_row, out_row);
  for (; i < m; ++i) dots<1, columns>(x + i * k, w, k, out + i * out_row, out_row);
}

}  // namespace

HEADRACE_CLONES void skinny_product(const float* x, int64_t m, const float* w, int64_t k,
                                    int64_t first, int64_t count, float* out, int64_t out_row) {
  int64_t j = first;
  for (; j + 4 <= first + count; j += 4) all_rows<4>(x, m, w + j * k, k, out + j, out_row);
  for (; j < first + count; ++j) all_rows<1>(x, m, w + j * k, k, out + j, out_row);
}

}  // namespace headrace
