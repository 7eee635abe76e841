#include "train/gradient_bucket.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "headrace/error.h"
#include "nn/files/adamw.h"
#include "nn/tensor_data.h"

namespace headrace {
namespace {

torch::Tensor view_of(std::span<float> flat, const FlatLayout::Entry& entry) {
  return torch::from_blob(flat.data() + entry.offset, entry.shape, torch::kFloat32);
}

void check_size(const FlatLayout& layout, std::size_t elements) {
  if (elements != layout.elements)
    fail(ErrorCode::internal, "a flat array of {} elements, but the parameters have {}", elements,
         layout.elements);
}

}  // namespace

FlatLayout flat_layout(const Parameters& parameters) {
  FlatLayout layout;
  for (const auto& [name, tensor] : parameters) {
    const auto elements = static_cast<std::size_t>(tensor.numel());
    layout.entries.push_back({name, tensor.sizes().vec(), layout.elements, elements});
    layout.elements += elements;
  }
  return layout;
}

void flatten(const FlatLayout& layout, const Parameters& parameters, std::span<float> flat) {
  check_size(layout, flat.size());
  for (const auto& entry : layout.entries)
    view_of(flat, entry).copy_(parameters.at(entry.name).detach());
}

void unflatten(const FlatLayout& layout, std::span<const float> flat, Parameters& parameters) {
  check_size(layout, flat.size());
  const std::span<float> source(const_cast<float*>(flat.data()),
                                flat.size());  // only read: from_blob knows no const
  for (const auto& entry : layout.entries)
    parameters.at(entry.name).detach().copy_(view_of(source, entry));
}

class GradientBuckets::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientBuckets& buckets, std::size_t replica, std::size_t entry)
      : buckets_(buckets), replica_(replica), entry_(entry) {}
  void operator()(const torch::Tensor& parameter) override {
    buckets_.deliver(replica_, entry_, std::exchange(parameter.mutable_grad(), {}));
  }

 private:
  GradientBuckets& buckets_;
  const std::size_t replica_, entry_;
};

GradientBuckets::GradientBuckets(FlatLayout layout, std::size_t replicas, std::size_t bucket_bytes)
    : layout_(std::move(layout)),
      bucket_bytes_(bucket_bytes),
      gradient_(layout_.elements),
      replicas_(replicas) {
  for (Replica& replica : replicas_) replica.gradients.resize(layout_.entries.size());
  // Until a backward pass has shown its order: from the last name to the first, which is near it.
  std::vector<std::size_t> order(layout_.entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  fill_buckets(order);
}

void GradientBuckets::attach(std::size_t replica, Parameters& parameters) {
  for (std::size_t i = 0; i < layout_.entries.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters.at(layout_.entries[i].name),
                                                   std::make_unique<Hook>(*this, replica, i));
}

void GradientBuckets::begin(std::size_t index, double denominator) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::none_of(replicas_, &Replica::takes_part)) reductions_.clear();
  Replica& replica = replicas_.at(index);
  replica.takes_part = true;
  replica.denominator = denominator;
  for (std::size_t entry = 0; entry < layout_.entries.size(); ++entry) {
    if (!replica.gradients[entry].defined()) continue;
    replica.gradients[entry].reset();
    ++buckets_[bucket_of_[entry]].awaited;
  }
  if (!ordered_ && index == 0) order_.clear();
}

double GradientBuckets::finish() {
  if (std::ranges::none_of(replicas_, &Replica::takes_part)) reductions_.clear();
  const double sum = denominator();
  for (Bucket& bucket : buckets_) {
    if (bucket.awaited > 0) reduce(bucket);
    bucket.awaited = bucket.entries.size() * replicas_.size();
  }
  for (Replica& replica : replicas_) {
    replica.takes_part = false;
    replica.denominator = 0;
    for (torch::Tensor& gradient : replica.gradients) gradient.reset();
  }
  if (!ordered_ && order_.size() == layout_.entries.size()) {
    ordered_ = true;
    fill_buckets(order_);
  }
  return sum;
}

void GradientBuckets::deliver(std::size_t index, std::size_t entry, torch::Tensor gradient) {
  if (gradient.scalar_type() != torch::kBFloat16) gradient = gradient.to(torch::kFloat32);
  gradient = gradient.contiguous();
  Bucket* complete = nullptr;
  {
    const std::lock_guard lock(mutex_);
    Replica& replica = replicas_[index];
    if (!replica.takes_part || replica.gradients[entry].defined())
      fail(ErrorCode::internal, "drafter {}: a gradient of {} that no begin() announced", index,
           layout_.entries[entry].name);
    replica.gradients[entry] = std::move(gradient);
    if (!ordered_ && index == 0) order_.push_back(entry);
    Bucket& bucket = buckets_[bucket_of_[entry]];
    if (--bucket.awaited == 0) complete = &bucket;
  }
  if (complete != nullptr) reduce(*complete);
}

void GradientBuckets::fill_buckets(std::span<const std::size_t> order) {
  buckets_.clear();
  bucket_of_.resize(order.size());
  std::size_t bytes = 0;
  for (const std::size_t entry : order) {
    const std::size_t more = layout_.entries[entry].elements * sizeof(float);
    if (buckets_.empty() || bytes + more > bucket_bytes_) {
      buckets_.emplace_back();
      bytes = 0;
    }
    bytes += more;
    buckets_.back().entries.push_back(entry);
    buckets_.back().awaited += replicas_.size();
    bucket_of_[entry] = buckets_.size() - 1;
  }
}

double GradientBuckets::denominator() const {
  double sum = 0;
  for (const Replica& replica : replicas_) sum += replica.denominator;
  return sum;
}

// Alone with the bucket's gradients: the last of them has arrived, or no backward pass runs.
void GradientBuckets::reduce(const Bucket& bucket) {
  Reduction reduction{.entries = bucket.entries, .begin = std::chrono::steady_clock::now()};
  const double sum = denominator();
  const float factor = sum == 0 ? 0 : static_cast<float>(1 / sum);
  for (const std::size_t entry : bucket.entries) {
    std::vector<const float*> singles;
    std::vector<const Bf16*> halves;
    for (const Replica& replica : replicas_) {
      const torch::Tensor& gradient = replica.gradients[entry];
      if (replica.denominator == 0 || !gradient.defined()) continue;
      if (gradient.scalar_type() == torch::kBFloat16)
        halves.push_back(data_of<Bf16>(gradient));
      else
        singles.push_back(data_of<float>(gradient));
    }
    if (!singles.empty() && !halves.empty())
      fail(ErrorCode::internal, "{}: a gradient in fp32 from {} drafters, in bf16 from {}",
           layout_.entries[entry].name, singles.size(), halves.size());
    const std::span<float> out = std::span(gradient_).subspan(layout_.entries[entry].offset,
                                                              layout_.entries[entry].elements);
    halves.empty() ? sum_scaled(singles, factor, out) : sum_scaled(halves, factor, out);
  }
  reduction.end = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  reductions_.push_back(std::move(reduction));
}

}  // namespace headrace
