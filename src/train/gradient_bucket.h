// All gradients of a drafter replica in one flat fp32 buffer, in the order of names, and their sum
// over replicas.
//
// A replica's gradient is that of its numerator, sum of w_k CE_k; the numerators' gradients and the
// denominators are summed over replicas and only then divided. A token's weight therefore does not
// depend on the replica it came to, and an empty replica changes nothing.
#pragma once

#include <span>
#include <vector>

#include "nn/drafter.h"
#include "train/flat_layout.h"

namespace headrace {

FlatLayout flat_layout(const Parameters& parameters);
// Values of all parameters into `flat` [layout.elements], and back into tensors of any dtype.
void flatten(const FlatLayout& layout, const Parameters& parameters, std::span<float> flat);
void unflatten(const FlatLayout& layout, std::span<const float> flat, Parameters& parameters);

// One replica's share of a step.
class GradientBucket {
 public:
  explicit GradientBucket(const FlatLayout& layout) : layout_(&layout), flat_(layout.elements) {}

  // Takes the parameters' gradients (absent: zero) and clears them. Replaces what was collected
  // before.
  void collect(Parameters& parameters, double denominator);
  void clear();  // an empty replica: the last step may have fewer batches than replicas

  std::span<const float> flat() const { return flat_; }
  double denominator() const { return denominator_; }

 private:
  const FlatLayout* layout_;
  std::vector<float> flat_;
  double denominator_ = 0;
};

// out = (gradient 0 + gradient 1 + ...) / (denominator 0 + denominator 1 + ...), always in this
// order. Returns the denominator; where it is 0, out is zero. Empty replicas are skipped.
double reduce(std::span<const GradientBucket> replicas, std::span<float> out);

}  // namespace headrace
