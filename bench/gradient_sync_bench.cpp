// Gradients of two replicas of a two-layer drafter of SmolLM2-135M's sizes become their mean, in
// one run so that ratios hold:
//   buckets           GradientBuckets: sums over the tensors that the backward passes left
//   flat_copied       each replica's gradients copied into one flat fp32 array, then a sum over them
//   tensor_by_tensor  as a loop over parameters does it
// and the whole of two backward passes side by side, until the mean is there:
//   backward/overlapped  buckets summed while the passes run
//   backward/then_sum    the same sums after both passes
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <thread>

#include "nn/files/adamw.h"
#include "nn/objective.h"
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
                   .context = 2048,
                   .rope_base = 100000};
  config.taps = {1, 8, 14, 20, 27};
  return config;
}

constexpr std::size_t kReplicas = 2;

struct Replicas {
  std::vector<Parameters> parameters;
  FlatLayout layout;
  Replicas() {
    at::set_num_threads(1);
    for (std::uint64_t r = 0; r < kReplicas; ++r)
      parameters.push_back(
          trainable_copy(Drafter::random_parameters(config(), r), torch::kBFloat16));
    layout = flat_layout(parameters[0]);
  }
  // As after a backward pass: the gradients lie in buffers of their own.
  torch::Tensor gradient(std::size_t r, const FlatLayout::Entry& entry) const {
    return parameters[r].at(entry.name).detach();
  }
};

void buckets(benchmark::State& state) {
  const Replicas replicas;
  GradientBuckets buckets(replicas.layout, kReplicas);
  for (auto _ : state) {
    for (std::size_t r = 0; r < kReplicas; ++r) {
      buckets.begin(r, 100);
      for (std::size_t i = 0; i < replicas.layout.entries.size(); ++i)
        buckets.deliver(r, i, replicas.gradient(r, replicas.layout.entries[i]));
    }
    benchmark::DoNotOptimize(buckets.finish());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(replicas.layout.elements));
}
BENCHMARK(buckets)->Unit(benchmark::kMillisecond);

void flat_copied(benchmark::State& state) {
  const Replicas replicas;
  const FlatLayout& layout = replicas.layout;
  std::vector<std::vector<float>> flat(kReplicas, std::vector<float>(layout.elements));
  std::vector<float> out(layout.elements);
  for (auto _ : state) {
    std::vector<const float*> terms;
    for (std::size_t r = 0; r < kReplicas; ++r) {
      flatten(layout, replicas.parameters[r], flat[r]);
      terms.push_back(flat[r].data());
    }
    sum_scaled(terms, 1.0f / 200, out);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(layout.elements));
}
BENCHMARK(flat_copied)->Unit(benchmark::kMillisecond);

void tensor_by_tensor(benchmark::State& state) {
  const Replicas replicas;
  for (auto _ : state)
    for (const auto& entry : replicas.layout.entries) {
      torch::Tensor sum = replicas.gradient(0, entry).to(torch::kFloat32);
      for (std::size_t r = 1; r < kReplicas; ++r)
        sum = sum + replicas.gradient(r, entry).to(torch::kFloat32);
      benchmark::DoNotOptimize(sum = sum / 200.0);
    }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(replicas.layout.elements));
}
BENCHMARK(tensor_by_tensor)->Unit(benchmark::kMillisecond);

// The mean of two backward passes, each in a thread of its own.
void backward(benchmark::State& state, bool overlapped) {
  at::set_num_threads(1);
  torch::manual_seed(1);
  const DrafterConfig c = config();
  const std::int64_t rows = 1, length = 256, anchors = 32;
  const torch::Tensor embedding =
      (torch::randn({c.target.vocab, c.target.hidden}) * 0.1).to(torch::kBFloat16);
  const DraftBatch batch{torch::randn({rows, length, 5 * c.target.hidden}).to(torch::kBFloat16),
                         torch::randint(c.target.vocab, {rows, length}, torch::kInt64),
                         torch::full({rows}, length, torch::kInt64),
                         torch::arange(anchors).mul(8).repeat({rows, 1})};
  const Parameters start = Drafter::random_parameters(c, 1);
  const FlatLayout layout = flat_layout(start);
  GradientBuckets buckets(layout, kReplicas);
  std::vector<Drafter> drafters;
  drafters.reserve(kReplicas);
  for (std::size_t r = 0; r < kReplicas; ++r) {
    drafters.emplace_back(c, trainable_copy(start, torch::kBFloat16), embedding, embedding);
    if (overlapped) buckets.attach(r, drafters[r].parameters());
  }
  for (auto _ : state) {
    std::vector<ObjectiveResult> results;
    for (const Drafter& drafter : drafters)
      results.push_back(objective(drafter.forward(batch), batch, embedding, {.gamma = 4}));
    const auto begin = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> threads;
      for (std::size_t r = 0; r < kReplicas; ++r)
        threads.emplace_back([&, r] {
          at::set_num_threads(1);
          if (overlapped) buckets.begin(r, results[r].denominator);
          results[r].numerator.backward();
        });
    }
    if (!overlapped)
      for (std::size_t r = 0; r < kReplicas; ++r) {
        buckets.begin(r, results[r].denominator);
        for (std::size_t i = 0; i < layout.entries.size(); ++i)
          buckets.deliver(
              r, i,
              std::exchange(drafters[r].parameters().at(layout.entries[i].name).mutable_grad(),
                            {}));
      }
    benchmark::DoNotOptimize(buckets.finish());
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
}
BENCHMARK_CAPTURE(backward, overlapped, true)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime()
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(backward, then_sum, false)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime()
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace headrace

BENCHMARK_MAIN();
