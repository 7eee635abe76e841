#include "nn/files/skinny_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace headrace {
namespace {

TEST(SkinnyProduct, EqualsAPlainSumAndDoesNotDependOnItsNeighbours) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const std::int64_t k : {1, 15, 16, 33, 64, 100})
    for (const std::int64_t m : {1, 3, 4, 7, 9})
      for (const std::int64_t n : {1, 4, 5, 11}) {
        std::vector<float> x(m * k), w(n * k), out(m * n, -1), alone(n), part(m * n, -1);
        for (float& v : x) v = normal(random);
        for (float& v : w) v = normal(random);
        skinny_product(x.data(), m, w.data(), k, 0, n, out.data(), n);
        for (std::int64_t i = 0; i < m; ++i) {
          skinny_product(x.data() + i * k, 1, w.data(), k, 0, n, alone.data(), n);
          for (std::int64_t j = 0; j < n; ++j) {
            double expected = 0, size = 0;
            for (std::int64_t p = 0; p < k; ++p) {
              expected += static_cast<double>(x[i * k + p]) * w[j * k + p];
              size += std::abs(static_cast<double>(x[i * k + p]) * w[j * k + p]);
            }
            EXPECT_NEAR(out[i * n + j], expected, 1e-6 * size + 1e-7);
            EXPECT_EQ(out[i * n + j], alone[j]);
          }
        }
        // In two parts, as two threads do it.
        skinny_product(x.data(), m, w.data(), k, 0, n / 2, part.data(), n);
        skinny_product(x.data(), m, w.data(), k, n / 2, n - n / 2, part.data(), n);
        EXPECT_EQ(part, out);
      }
}

}  // namespace
}  // namespace headrace
