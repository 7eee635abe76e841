// AdamW and the sums before it, over flat fp32 arrays; without libtorch. Elementwise, so ranges may
// go to any thread.
#pragma once

#include <cstdint>
#include <span>

#include "nn/files/cpu_kernels.h"

namespace headrace {

struct AdamWStep {
  float learning_rate = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  float gradient_scale = 1;                // of clipping
  float correction1 = 1, correction2 = 1;  // 1 - beta^t
};

// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// w -= learning_rate (m / correction1 / (sqrt(v / correction2) + eps) + weight_decay w), g scaled
// first.
void adamw(const AdamWStep& step, const float* gradient, std::int64_t n, float* weights, float* m,
           float* v);

// Sum of squares: fp32 within chunks of 4,096, fp64 over them, always in the same order.
double sum_of_squares(const float* x, std::int64_t n);

// out = (x[0] + x[1] + ...) * factor in fp32, each x of out's size; zero without any.
void sum_scaled(std::span<const float* const> x, float factor, std::span<float> out);
void sum_scaled(std::span<const Bf16* const> x, float factor, std::span<float> out);

}  // namespace headrace
