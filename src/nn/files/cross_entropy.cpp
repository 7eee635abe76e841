#include "nn/files/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "nn/files/register_inl.h"

namespace headrace {

using std::int64_t;
using namespace kernels;

template <typename T>
HEADRACE_CLONES CrossEntropy cross_entropy_row(T* logits, int64_t n, int64_t label,
                                               LogitTail tail) {
  using A = Wide<T>;
  const int64_t plain = n - tail.size;
  const A bias = static_cast<A>(tail.bias);
  const A largest_plain = largest_of(logits, plain);
  const A largest_tail = tail.size > 0 ? largest_of(logits + plain, tail.size) : largest_plain;
  const A at_label = load(logits[label]);
  bool correct = at_label == largest_plain && largest_tail <= largest_plain;
  for (int64_t i = 0; i < label && correct; ++i) correct = load(logits[i]) != largest_plain;
  const A largest = std::max(largest_plain, tail.size > 0 ? largest_tail + bias : largest_plain);
  const double total =
      exponentials(logits, plain, largest) +
      (tail.size > 0 ? exponentials(logits + plain, tail.size, largest - bias) : 0.0);
  const A own = exp_approx(at_label - largest);
  // Subtracted before rounding, so that a sure prediction keeps the digits of its small gradient.
  logits[label] = narrow<T>(static_cast<A>(static_cast<double>(own) - total));
  return {std::log(total) - static_cast<double>(at_label - largest), 1.0 / total, correct};
}

template <typename T>
HEADRACE_CLONES int64_t argmax_row(const T* logits, int64_t n, const T* hidden, const T* head,
                                   int64_t width) {
  using A = Wide<T>;
  const A largest = largest_of(logits, n);
  // Two values, each off by half a unit in the last place of 8 bits; twice that for products summed
  // in another order.
  const A margin = std::is_same_v<T, Bf16> ? std::abs(largest) / A(64) : A(0);
  constexpr int64_t stretch = 512;  // most hold no candidate
  int64_t best = -1;
  A best_value = 0;
  for (int64_t begin = 0; begin < n; begin += stretch) {
    const int64_t end = std::min(begin + stretch, n);
    if (largest_of(logits + begin, end - begin) < largest - margin) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (load(logits[i]) < largest - margin) continue;
      const T* row = head + i * width;
      const A value = margin > 0
                          ? sum<A>(width, [=](int64_t j) { return load(hidden[j]) * load(row[j]); })
                          : static_cast<A>(load(logits[i]));
      if (best >= 0 && value <= best_value) continue;
      best = i;
      best_value = value;
    }
  }
  return std::max(best, int64_t{0});  // NaN logits have no largest
}

#define HEADRACE_INSTANTIATE(T)                                             \
  template CrossEntropy cross_entropy_row(T*, int64_t, int64_t, LogitTail); \
  template int64_t argmax_row(const T*, int64_t, const T*, const T*, int64_t);
HEADRACE_INSTANTIATE(float)
HEADRACE_INSTANTIATE(Bf16)
HEADRACE_INSTANTIATE(double)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
