// Typed pointers into tensors, for the kernels of nn/files/cpu_kernels.h, and rows split over
// threads.
#pragma once

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <type_traits>

#include "nn/files/cpu_kernels.h"

namespace headrace {

template <typename T>
inline constexpr torch::ScalarType dtype_of =
    std::is_same_v<T, Bf16> ? torch::kBFloat16 : torch::kFloat32;

template <typename T>
T* data_of(const torch::Tensor& tensor) {
  if constexpr (std::is_same_v<T, Bf16>)
    return reinterpret_cast<Bf16*>(tensor.data_ptr<at::BFloat16>());
  else
    return tensor.data_ptr<T>();
}

// f(first, count) over parts of [0, rows), on the calling thread's compute threads (nn/threads.h).
// A part has at least 16 thousand elements: below, a thread costs more than it saves.
template <typename F>
void for_rows(std::int64_t rows, std::int64_t width, const F& f) {
  constexpr std::int64_t least = 16384;
  at::parallel_for(0, rows, (least + width - 1) / width,
                   [&](std::int64_t begin, std::int64_t end) { f(begin, end - begin); });
}

}  // namespace headrace
