// Typed pointers into tensors, for the kernels of nn/files/cpu_kernels.h, and rows split over
// threads.
#pragma once

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "nn/files/cpu_kernels.h"
#include "nn/files/skinny_product.h"

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

// out = x times the transpose of w; x is [m, k], w [n, k], out [m, n] contiguous. Few rows in fp32
// go past the library.
inline void multiply(torch::Tensor& out, const torch::Tensor& x, const torch::Tensor& w) {
  const std::int64_t m = x.size(0), n = w.size(0), k = w.size(1);
  if (m == 0 || m > kSkinnyRows || x.scalar_type() != torch::kFloat32 || !x.is_contiguous() ||
      !w.is_contiguous()) {
    torch::mm_out(out, x, w.t());
    return;
  }
  at::parallel_for(0, n, std::max<std::int64_t>(16, 65536 / k),
                   [&](std::int64_t begin, std::int64_t end) {
                     skinny_product(x.data_ptr<float>(), m, w.data_ptr<float>(), k, begin,
                                    end - begin, out.data_ptr<float>(), n);
                   });
}

// torch::linear without a bias; by multiply() where no gradient is asked for.
inline torch::Tensor product(const torch::Tensor& x, const torch::Tensor& w) {
  if (torch::GradMode::is_enabled() || w.size(1) == 0) return torch::linear(x, w);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = w.size(0);
  torch::Tensor out = torch::empty({x.numel() / w.size(1), w.size(0)}, x.options());
  multiply(out, x.reshape({-1, w.size(1)}).contiguous(), w);
  return out.view(shape);
}

}  // namespace headrace
