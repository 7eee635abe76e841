// Products of a few rows with a large weight, fp32: decoding. A library packs the weight first,
// which costs more than the product when it has few rows. Without libtorch.
#pragma once

#include <cstdint>

namespace headrace {

// Rows up to which this is faster than a packing library.
inline constexpr std::int64_t kSkinnyRows = 64;

// out[i, j] = dot(x[i], w[j]) for i in [0, m) and j in [first, first + count); x is [m, k], w is
// [n, k], both contiguous, out's rows are `out_row` apart. Each dot product is summed in an order
// of its own that depends on nothing but k: one row gives the same bits alone and among others, so
// speculative and plain decoding agree bit for bit in their products.
void skinny_product(const float* x, std::int64_t m, const float* w, std::int64_t k,
                    std::int64_t first, std::int64_t count, float* out, std::int64_t out_row);

}  // namespace headrace
