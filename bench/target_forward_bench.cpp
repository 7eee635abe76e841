// Tokens a second of the target's forward pass, for bench/target_forward.py, which runs competitors
// beside it.
//
// usage: bench_target_forward MODEL fp32|bf16 THREADS
// Then one line of standard input a measurement, answered by the seconds it took:
//   prefill ROWS LENGTH   hidden states of all layers for ROWS x LENGTH tokens, no head (training's
//   shape) decode LENGTH STEPS   STEPS greedy tokens one by one after LENGTH, with the head
// Tokens are the same in every program: token i is (i * 7919 + 13) mod vocabulary.
#include <fmt/core.h>
#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <string>

#include "headrace/error.h"
#include "nn/target.h"
#include "nn/threads.h"

namespace {

using headrace::Target;
using std::int64_t;

torch::Tensor some_tokens(int64_t rows, int64_t length, int64_t vocab) {
  return torch::arange(rows * length, torch::kInt64)
      .mul(7919)
      .add(13)
      .remainder(vocab)
      .view({rows, length});
}

void prefill(const Target& target, int64_t rows, int64_t length) {
  target.features(some_tokens(rows, length, target.shape().vocab), {target.shape().layers - 1});
}

// The prompt is not part of the time.
double decode(const Target& target, int64_t length, int64_t steps) {
  auto cache = target.make_cache(1, length + steps);
  target.forward(some_tokens(1, length, target.shape().vocab), cache, {});
  auto token = torch::full({1, 1}, 13, torch::kInt64);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < steps; ++i)
    token = target.logits(target.forward(token, cache, {}).hidden).argmax(-1);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(const std::string& model, const std::string& precision, int threads) {
  headrace::set_compute_threads(threads);
  const auto file = headrace::GgufFile::open(headrace::find_model(model));
  const auto start = std::chrono::steady_clock::now();
  const Target target = Target::load(
      file, precision == "bf16" ? headrace::Precision::bf16 : headrace::Precision::fp32);
  const std::chrono::duration<double> loading = std::chrono::steady_clock::now() - start;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(stderr, "loaded in {:.2f} s, peak {} MiB resident\n", loading.count(),
             usage.ru_maxrss / 1024);
  std::string what;
  int64_t a = 0, b = 0;
  while (std::cin >> what >> a >> b) {
    double seconds = 0;
    if (what == "prefill") {
      const auto begin = std::chrono::steady_clock::now();
      prefill(target, a, b);
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    } else if (what == "decode") {
      seconds = decode(target, a, b);
    } else {
      headrace::fail(headrace::ErrorCode::usage, "\"{}\": give prefill or decode", what);
    }
    std::cout << seconds << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: bench_target_forward MODEL fp32|bf16 THREADS\n";
    return 2;
  }
  return run(argv[1], argv[2], std::stoi(argv[3]));
} catch (const headrace::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_status();
}
