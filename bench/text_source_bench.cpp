// What the text source costs: a row apart from reading and tokenising, all of it with a trivial
// encoder, the draw of a row's anchors, and the scan of a folder. usage: text_source_bench FOLDER
// [Google Benchmark's flags]   (FOLDER: about 12 MB of text)
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "data/anchors.h"
#include "headrace/error.h"
#include "headrace/text_source.h"

namespace headrace {
namespace {

std::string folder;

// One token for four bytes, as a BPE gives on average.
std::vector<std::int32_t> encode_trivially(std::string_view bytes) {
  std::vector<std::int32_t> ids(bytes.size() / 4);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<unsigned char>(bytes[4 * i]);
  return ids;
}

TextOptions options(const benchmark::State& state) {
  return {.rows = static_cast<std::uint64_t>(state.range(0)),
          .length = static_cast<std::uint64_t>(state.range(1)),
          .anchors = static_cast<std::uint64_t>(state.range(2)),
          .workers = 0};  // what is measured runs in this thread
}

void report_rows(benchmark::State& state, std::uint64_t rows) {
  state.counters["row"] = benchmark::Counter(
      static_cast<double>(rows), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Sampling, padding and packing: batches for which no window had to be read.
void packing(benchmark::State& state) {
  bool encoded = false;
  TextSource source(scan({folder}), options(state), [&](std::string_view bytes) {
    encoded = true;
    return encode_trivially(bytes);
  });
  TokenBatch batch;
  std::uint64_t rows = 0;
  for (auto _ : state) {
    std::chrono::steady_clock::time_point start, end;
    do {
      encoded = false;
      start = std::chrono::steady_clock::now();
      source.next(batch);
      end = std::chrono::steady_clock::now();
    } while (encoded);
    state.SetIterationTime(std::chrono::duration<double>(end - start).count());
    rows += batch.rows;
  }
  report_rows(state, rows);
}

// The same with reading, cutting, UTF-8 counting, the trivial encoder and the shuffle of each
// window.
void everything(benchmark::State& state) {
  TextSource source(scan({folder}), options(state), encode_trivially);
  TokenBatch batch;
  std::uint64_t rows = 0;
  for (auto _ : state) {
    source.next(batch);
    rows += batch.rows;
  }
  report_rows(state, rows);
}

void anchors(benchmark::State& state) {
  std::vector<std::int32_t> drawn(static_cast<std::size_t>(state.range(1)));
  std::uint64_t row = 0;
  for (auto _ : state) {
    sample_anchors(CounterRng(1, Draw::anchors, {row++}),
                   static_cast<std::uint64_t>(state.range(0)), drawn);
    benchmark::DoNotOptimize(drawn.data());
  }
}

void scan_folder(benchmark::State& state) {
  std::uint64_t bytes = 0, files = 0;
  for (auto _ : state) {
    const Manifest manifest = scan({folder});
    files = manifest.files.size();
    for (const ManifestFile& file : manifest.files) bytes += file.size;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  state.counters["files"] = static_cast<double>(files);
}

void cases(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "length", "anchors"})
      ->Args({4, 256, 32})
      ->Args({16, 512, 64})
      ->Args({4, 4096, 512});
}
BENCHMARK(packing)->Apply(cases)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(everything)->Apply(cases)->Unit(benchmark::kMicrosecond);
BENCHMARK(anchors)
    ->ArgNames({"length", "anchors"})
    ->Args({256, 32})
    ->Args({512, 64})
    ->Args({4096, 512})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(scan_folder)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    fmt::print(stderr, "usage: text_source_bench FOLDER [--benchmark_...]\n");
    return 2;
  }
  headrace::folder = argv[1];
  try {
    benchmark::RunSpecifiedBenchmarks();
  } catch (const headrace::Error& error) {
    fmt::print(stderr, "text_source_bench: {}\n", error.what());
    return error.exit_status();
  }
}
