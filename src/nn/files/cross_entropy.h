// Softmax cross entropy over one row of logits, and the exact argmax of rounded logits. Without
// libtorch.
#pragma once

#include <cstdint>

#include "nn/files/cpu_kernels_backward.h"

namespace headrace {

struct CrossEntropy {
  double loss = 0;       // -log softmax(logits)[label]
  double scale = 0;      // of the gradient
  bool correct = false;  // the label is the first of the largest logits
};

// The last `size` logits of a row stand for more tokens than they are: `bias` is added to each.
struct LogitTail {
  std::int64_t size = 0;
  double bias = 0;
};

// Overwrites the logits with their gradient divided by `scale`: exp(x - max), less the sum of all
// at the label. In two passes, the exponential taken once; dividing by the sum is left to what the
// product with the head gives, which is far narrower. The label is not in the tail; whether it is
// the largest is judged without the bias.
template <typename T>
CrossEntropy cross_entropy_row(T* logits, std::int64_t n, std::int64_t label, LogitTail tail = {});

// argmax over j of dot(hidden, head[j]). `logits` holds these products rounded to T; those too
// close to the largest for its rounding are computed again in wide arithmetic, so bf16 logits, a
// sixteenth apart at 16, give no ties.
template <typename T>
std::int64_t argmax_row(const T* logits, std::int64_t n, const T* hidden, const T* head,
                        std::int64_t width);

}  // namespace headrace
