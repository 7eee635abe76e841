#include "train/gradient_bucket.h"

#include <algorithm>

#include "headrace/error.h"
#include "nn/files/adamw.h"

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

void GradientBucket::collect(Parameters& parameters, double denominator) {
  for (const auto& entry : layout_->entries) {
    torch::Tensor& gradient = parameters.at(entry.name).mutable_grad();
    torch::Tensor view = view_of(flat_, entry);
    gradient.defined() ? view.copy_(gradient) : view.zero_();
    gradient.reset();
  }
  denominator_ = denominator;
}

void GradientBucket::clear() {
  denominator_ = 0;
}

double reduce(std::span<const GradientBucket> replicas, std::span<float> out) {
  double denominator = 0;
  std::vector<const float*> gradients;
  for (const GradientBucket& replica : replicas) {
    if (replica.denominator() == 0) continue;
    if (replica.flat().size() != out.size())
      fail(ErrorCode::internal, "a gradient of {} elements is reduced into {}",
           replica.flat().size(), out.size());
    denominator += replica.denominator();
    gradients.push_back(replica.flat().data());
  }
  sum_scaled(gradients, denominator == 0 ? 0 : static_cast<float>(1 / denominator), out);
  return denominator;
}

}  // namespace headrace
