// How fast text becomes tokens on one core: Python sources and one long word. Beside the tokenizers
// library: tools/golden/time_tokenizers.py, which measures the same bytes.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "headrace/error.h"
#include "headrace/tokenizer.h"

namespace headrace {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer loaded =
      Tokenizer::from(GgufFile::open(find_model("SmolLM2-135M-Instruct.Q4_1.gguf")));
  return loaded;
}

// Files of HEADRACE_BENCH_TEXT, a folder; by default the standard library of the usual Python. At
// most 16 MiB, in the order of their names.
std::vector<std::string> texts() {
  namespace fs = std::filesystem;
  const char* named = std::getenv("HEADRACE_BENCH_TEXT");
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(named ? named : "/usr/lib/python3.11"))
    if (entry.is_regular_file() && entry.path().extension() == ".py") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> found;
  std::size_t bytes = 0;
  for (const auto& path : paths) {
    if (bytes > 16 << 20) break;
    std::ifstream file(path, std::ios::binary);
    found.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    bytes += found.back().size();
  }
  if (found.empty())
    fail(ErrorCode::bad_input, "no *.py to measure with: set HEADRACE_BENCH_TEXT to a folder");
  return found;
}

void encode(benchmark::State& state, const std::vector<std::string>& documents) {
  std::size_t bytes = 0, tokens = 0;
  for (auto _ : state) {
    for (const std::string& document : documents) {
      tokens += tokenizer().encode(document).size();
      bytes += document.size();
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsRate);
}

void BM_python_sources(benchmark::State& state) {
  static const auto documents = texts();
  encode(state, documents);
}
BENCHMARK(BM_python_sources)->Unit(benchmark::kMillisecond);

void BM_word_of_one_mebibyte(benchmark::State& state) {
  std::string word;
  for (std::uint32_t x = 1; word.size() < 1 << 20; x = x * 1664525 + 1013904223)
    word += static_cast<char>('a' + (x >> 24) % 26);
  encode(state, {word});
}
BENCHMARK(BM_word_of_one_mebibyte)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  try {
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (const headrace::Error& error) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", error.what());
    return error.exit_status();
  }
}
