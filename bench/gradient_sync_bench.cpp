// Gradients of two replicas of a two-layer drafter of SmolLM2-135M's sizes: collected into one flat
// bucket and reduced in one pass, against tensor by tensor as a loop over parameters does it. One
// thread; in one run, so the ratio holds.
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include "train/gradient_bucket.h"

namespace headrace {
namespace {

DrafterConfig config() {
  DrafterConfig config;
  config.target = {.hidden = 576,
                   .layers = 30,
                   .heads = 9,
                   .kv_heads = 3,
                   .head_dim = 64,
                   .ffn = 1536,
                   .vocab = 49152,
                   .context = 2048};
  config.taps = {1, 8, 14, 20, 27};
  return config;
}

struct Replicas {
  std::vector<Parameters> parameters;
  Replicas() {
    at::set_num_threads(1);
    for (std::uint64_t r = 0; r < 2; ++r)
      parameters.push_back(
          trainable_copy(Drafter::random_parameters(config(), r), torch::kBFloat16));
  }
  // As after a backward pass: the gradients lie in buffers of their own.
  void set_gradients() {
    for (auto& replica : parameters)
      for (auto& [name, tensor] : replica) tensor.mutable_grad() = tensor.detach();
  }
};

void flat(benchmark::State& state) {
  Replicas replicas;
  const FlatLayout layout = flat_layout(replicas.parameters[0]);
  std::vector<GradientBucket> buckets(2, GradientBucket(layout));
  std::vector<float> out(layout.elements);
  for (auto _ : state) {
    replicas.set_gradients();
    for (std::size_t r = 0; r < 2; ++r) buckets[r].collect(replicas.parameters[r], 100);
    benchmark::DoNotOptimize(reduce(buckets, out));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * layout.elements));
}
BENCHMARK(flat)->Unit(benchmark::kMillisecond);

void tensor_by_tensor(benchmark::State& state) {
  Replicas replicas;
  std::int64_t elements = 0;
  for (auto _ : state) {
    replicas.set_gradients();
    elements = 0;
    for (const auto& [name, tensor] : replicas.parameters[0]) {
      torch::Tensor sum = tensor.grad().to(torch::kFloat32);
      for (std::size_t r = 1; r < 2; ++r)
        sum = sum + replicas.parameters[r].at(name).grad().to(torch::kFloat32);
      benchmark::DoNotOptimize(sum = sum / 200.0);
      elements += sum.numel();
    }
  }
  state.SetItemsProcessed(state.iterations() * elements);
}
BENCHMARK(tensor_by_tensor)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace headrace

BENCHMARK_MAIN();
