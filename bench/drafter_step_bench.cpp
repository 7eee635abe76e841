// One training step of the drafter on one thread, piece by piece, beside its matrix products alone
// (the floor): SmolLM2-135M's sizes, 4 rows of 256 tokens, 64 anchors a row, block 8, 2 layers,
// bfloat16. Each piece's best and median of the runs.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>

#include "nn/objective.h"
#include "train/gradient_bucket.h"
#include "train/optimizer.h"

namespace headrace {
namespace {

using torch::Tensor;

struct Timing {
  std::vector<double> seconds;
  void time(const std::function<void()>& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double median() const {
    auto sorted = seconds;
    std::nth_element(sorted.begin(),
                     sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    return sorted[sorted.size() / 2];
  }
  void print(const char* what) const {
    fmt::print("{:<34} {:8.1f} ms best {:8.1f} ms median\n", what, best() * 1e3, median() * 1e3);
  }
};

// x W^T with its two backward products; the input's only where it is asked for.
void products(std::int64_t rows, std::int64_t in, std::int64_t out, bool input_gradient,
              std::vector<std::function<void()>>& list) {
  const Tensor x = torch::randn({rows, in}).to(torch::kBFloat16),
               w = torch::randn({out, in}).to(torch::kBFloat16),
               dy = torch::randn({rows, out}).to(torch::kBFloat16);
  list.push_back([=] {
    torch::linear(x, w);
    torch::mm(dy.t(), x);
    if (input_gradient) torch::mm(dy, w);
  });
}

int run(int repetitions) {
  at::set_num_threads(1);
  torch::manual_seed(1);
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
  const LlamaShape& s = config.target;
  const std::int64_t rows = 4, length = 256, anchors = 64;
  const Tensor embedding = (torch::randn({s.vocab, s.hidden}) * 0.1).to(torch::kBFloat16);
  const Parameters start = Drafter::random_parameters(config, 1);
  Drafter drafter(config, trainable_copy(start, torch::kBFloat16), embedding, embedding);
  const FlatLayout layout = flat_layout(start);
  std::vector<float> weights(layout.elements);
  flatten(layout, start, weights);
  Optimizer optimizer(layout, weights, {});
  GradientBuckets buckets(layout, 1);
  buckets.attach(0, drafter.parameters());
  const DraftBatch batch{torch::randn({rows, length, 5 * s.hidden}).to(torch::kBFloat16),
                         torch::randint(s.vocab, {rows, length}, torch::kInt64),
                         torch::full({rows}, length, torch::kInt64),
                         torch::arange(anchors).mul(4).repeat({rows, 1})};

  Timing forward, head, backward, update, step, floor_body, floor_head;
  const std::int64_t slots = rows * anchors * config.block, context = rows * (4 * (anchors - 1));
  std::vector<std::function<void()>> body;
  products(context, 5 * s.hidden, s.hidden, false, body);
  for (std::int64_t l = 0; l < config.layers; ++l) {
    products(slots, s.hidden, s.hidden, true, body);
    for (int i = 0; i < 2; ++i)
      products(context + slots, s.hidden, s.kv_heads * s.head_dim, true, body);
    products(slots, s.hidden, s.hidden, true, body);
    for (int i = 0; i < 2; ++i) products(slots, s.hidden, s.ffn, true, body);
    products(slots, s.ffn, s.hidden, true, body);
  }
  const Tensor some = torch::randn({256, s.hidden}).to(torch::kBFloat16);
  Tensor logits = torch::empty({256, s.vocab}, torch::kBFloat16);

  for (int i = 0; i < repetitions; ++i) {
    step.time([&] {
      Tensor hidden;
      ObjectiveResult result;
      forward.time([&] { hidden = drafter.forward(batch); });
      head.time([&] { result = objective(hidden, batch, embedding, {.gamma = 4}); });
      backward.time([&] {
        buckets.begin(0, result.denominator);
        result.numerator.backward();
        buckets.finish();
      });
      update.time([&] {
        optimizer.step(buckets.gradient(), 1e-3);
        unflatten(layout, optimizer.weights(), drafter.parameters());
      });
    });
    torch::NoGradGuard no_grad;
    floor_body.time([&] {
      for (const auto& product : body) product();
    });
    floor_head.time([&] {
      torch::mm_out(logits, some, embedding.t());
      torch::mm(logits, embedding);
    });
  }
  forward.print("drafter forward");
  head.print("objective (head, both directions)");
  backward.print("drafter backward, buckets summed");
  update.print("AdamW, working copies");
  step.print("step");
  const double chunks = static_cast<double>(rows * anchors * (config.block - 1)) / 256;
  const double floor = floor_body.best() + floor_head.best() * chunks;
  fmt::print(
      "products alone: body {:.1f} ms, head {:.1f} ms; step / products: {:.2f} best, {:.2f} "
      "median\n",
      floor_body.best() * 1e3, floor_head.best() * chunks * 1e3, step.best() / floor,
      step.median() / (floor_body.median() + floor_head.median() * chunks));
  return 0;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  return headrace::run(argc > 1 ? std::atoi(argv[1]) : 10);
}
