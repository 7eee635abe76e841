// The gradients of a drafter's replicas, summed in buckets while their backward passes still run.
//
// A replica's gradient is that of its numerator, sum of w_k CE_k; the numerators' gradients and the
// denominators are summed over replicas and only then divided. A token's weight therefore does not
// depend on the replica it came to, and an empty replica changes nothing.
//
// Contract
//   - Sums go over replicas in their order, whatever the order of arrival: a split of a batch has
//     one result, bit for bit. That costs nothing here, so there is no mode without it.
//   - A bucket is summed by the thread that hands over its last gradient, in the middle of that
//     thread's backward pass, where all replicas take part; otherwise by finish().
//   - Gradients are not copied: sums are taken over the tensors that the backward passes made, and
//     finish() lets go of them.
//   - A parameter's gradients come in one type from all replicas: bf16, or any that is summed as
//     fp32. Error(internal) names one that does not.
//   - begin() and the backward pass of a replica belong to one thread; replicas may run side by
//     side. finish() needs all of them at rest.
#pragma once

#include <chrono>
#include <mutex>
#include <span>
#include <vector>

#include "nn/drafter.h"
#include "train/flat_layout.h"

namespace headrace {

FlatLayout flat_layout(const Parameters& parameters);
// Values of all parameters into `flat` [layout.elements], and back into tensors of any dtype.
void flatten(const FlatLayout& layout, const Parameters& parameters, std::span<float> flat);
void unflatten(const FlatLayout& layout, std::span<const float> flat, Parameters& parameters);

class GradientBuckets {
 public:
  static constexpr std::size_t kBucketBytes = 4 << 20;

  // A bucket has at most `bucket_bytes` of fp32 sums, or one tensor where that alone has more.
  GradientBuckets(FlatLayout layout, std::size_t replicas, std::size_t bucket_bytes = kBucketBytes);
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // From now on a backward pass of these parameters hands over its gradients, each as soon as it is
  // done, and leaves none in them. This must outlive such passes.
  void attach(std::size_t replica, Parameters& parameters);

  // Before the backward pass of a replica that takes part in this step. A parameter that the pass
  // does not reach has gradient 0. Once more before finish(): the pass that follows replaces the one
  // before, and no other may run meanwhile.
  void begin(std::size_t replica, double denominator);
  // What the backward passes call: the gradient of the layout's entry.
  void deliver(std::size_t replica, std::size_t entry, torch::Tensor gradient);
  // Ends the step: sums what is left. gradient() is then the sum of the gradients over the sum of
  // the denominators, which is returned; 0 where that is 0.
  double finish();

  std::vector<float>& gradient() { return gradient_; }  // [layout.elements]

  // When the buckets of the last or present step were summed.
  struct Reduction {
    std::vector<std::size_t> entries;  // of the layout, in the order of the backward pass
    std::chrono::steady_clock::time_point begin, end;
  };
  std::span<const Reduction> reductions() const { return reductions_; }

 private:
  struct Bucket {
    std::vector<std::size_t> entries;
    std::size_t awaited = 0;  // gradients until all replicas have handed over theirs
  };
  struct Replica {
    bool takes_part = false;
    double denominator = 0;
    std::vector<torch::Tensor> gradients;  // an entry of the layout each; undefined: not there
  };
  class Hook;

  void fill_buckets(std::span<const std::size_t> order);
  double denominator() const;
  void reduce(const Bucket& bucket);

  const FlatLayout layout_;
  const std::size_t bucket_bytes_;
  std::vector<float> gradient_;
  std::mutex mutex_;  // of what follows, while backward passes run
  std::vector<Replica> replicas_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // an entry of the layout
  std::vector<std::size_t> order_;      // of a replica's first whole backward pass
  bool ordered_ = false;
  std::vector<Reduction> reductions_;
};

}  // namespace headrace
