// What recording costs: a span in a loop with the recorder on and off, the reading of its clock, a
// Span with strings, and a trace that is written while the loop runs. Beside it what one would
// write without Headrace: two steady_clock readings and a record in a vector of one's own (no lock,
// no bound), the same behind a mutex, and a line of spdlog. Rounds take turns; medians of the
// recording thread's CPU time. usage: bench_record [ROUNDS]
#define SPDLOG_FMT_EXTERNAL
#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "headrace/record.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kSpans = 200'000;

// The compiler must believe that `value` is used, and that memory may have changed.
template <typename T>
void keep(T&& value) {
  asm volatile("" : : "g"(value) : "memory");
}

struct Contestant {
  const char* name;
  std::function<void()> round;  // kSpans spans
  std::vector<double> ns{};     // a span, each round

  double median() const {
    std::vector<double> sorted = ns;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

struct PlainSpan {
  std::int64_t start_ns, end_ns;
  const char* stage;
  std::uint64_t step;
};

// Of this thread alone, so that another program on the same core counts little.
double cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

std::int64_t steady_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

void spans_on(Lane lane, Name stage) {
  for (std::uint64_t step = 0; step < kSpans; ++step) {
    const SpanScope span(lane, {.stage = stage, .step = step});
    keep(step);
  }
}

int run(int rounds) {
  const std::string streamed = std::filesystem::temp_directory_path() /
                               fmt::format("headrace-record-bench-{}.json", ::getpid());
  Recorder recorder({.devices = {"loop"}});
  Recorder streaming({.devices = {"loop"}}, {.path = streamed});
  const Lane lane = recorder.lane(0), streaming_lane = streaming.lane(0);
  Lane off;
  keep(&off);  // it might be on, for all that the compiler knows
  const Name stage = recorder.name("decode"), streaming_stage = streaming.name("decode");
  spans_on(lane, stage), spans_on(lane, stage);  // all of the ring's pages are there

  std::mutex mutex;
  std::vector<PlainSpan> own, shared;
  const auto logger = spdlog::basic_logger_st("spans", "/dev/null");
  std::vector<Contestant> contestants = {
      {"the empty loop",
       [] {
         for (std::uint64_t step = 0; step < kSpans; ++step) keep(step);
       }},
      {"SpanScope, off", [&] { spans_on(off, stage); }},
      {"SpanScope, on", [&] { spans_on(lane, stage); }},
      {"SpanScope, on, written to a file", [&] { spans_on(streaming_lane, streaming_stage); }},
      {"SpanScope, on, into new memory",
       [] {
         Recorder fresh({.devices = {"loop"}});
         spans_on(fresh.lane(0), fresh.name("decode"));
       }},
      {"Lane::now_ns()",
       [&] {
         for (std::uint64_t step = 0; step < kSpans; ++step) keep(lane.now_ns());
       }},
      {"Recorder::add(Span)",
       [&] {
         for (std::uint64_t step = 0; step < kSpans; ++step) {
           const std::int64_t start = recorder.now_ns();
           keep(step);
           recorder.add(
               {.start_ns = start, .end_ns = recorder.now_ns(), .stage = "decode", .step = step});
         }
       }},
      {"steady_clock::now()",
       [] {
         for (std::uint64_t step = 0; step < kSpans; ++step) keep(steady_ns());
       }},
      {"steady_clock, own vector",
       [&] {
         own.clear();
         for (std::uint64_t step = 0; step < kSpans; ++step) {
           const std::int64_t start = steady_ns();
           keep(step);
           own.push_back({start, steady_ns(), "decode", step});
         }
       }},
      {"steady_clock, mutex, vector",
       [&] {
         shared.clear();
         for (std::uint64_t step = 0; step < kSpans; ++step) {
           const std::int64_t start = steady_ns();
           keep(step);
           const std::int64_t end = steady_ns();
           const std::lock_guard lock(mutex);
           shared.push_back({start, end, "decode", step});
         }
       }},
      {"steady_clock, spdlog line",
       [&] {
         for (std::uint64_t step = 0; step < kSpans; ++step) {
           const std::int64_t start = steady_ns();
           keep(step);
           logger->info("decode {} {} {}", step, start, steady_ns());
         }
       }},
  };
  for (int round = 0; round < rounds; ++round)
    for (Contestant& contestant : contestants) {
      const double start = cpu_ns();
      contestant.round();
      contestant.ns.push_back((cpu_ns() - start) / static_cast<double>(kSpans));
    }
  streaming.finish();

  // The writer alone: what the ring holds, to the end of the file.
  Recorder written({.devices = {"loop"}}, {.path = streamed});
  spans_on(written.lane(0), written.name("decode"));
  const Clock::time_point start = Clock::now();
  written.finish();
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  const auto bytes = static_cast<double>(std::filesystem::file_size(streamed));
  std::filesystem::remove(streamed);

  const double loop = contestants[0].median(), on = contestants[2].median() - loop;
  fmt::print("{:<34}{:>12}{:>22}\n", "", "ns a span", "of SpanScope, on");
  for (const Contestant& contestant : contestants)
    fmt::print("{:<34}{:>12.2f}{:>22.2f}\n", contestant.name, contestant.median() - loop,
               (contestant.median() - loop) / on);
  fmt::print("the loop's own {:.2f} ns are taken off; {} rounds of {} spans\n", loop, rounds,
             kSpans);
  fmt::print("a span is 56 bytes in memory and {:.0f} in the file, written in {:.2f} us\n",
             bytes / static_cast<double>(kSpans), us / static_cast<double>(kSpans));
  return 0;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  return headrace::run(argc > 1 ? std::max(std::atoi(argv[1]), 1) : 25);
}
