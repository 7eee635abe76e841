#include "harness.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <span>
#include <thread>

#include "headrace/error.h"
#include "headrace/thread.h"

namespace headrace::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

double process_sleeps() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_nvcsw);
}

}  // namespace

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Options parse_options(int argc, char** argv, const std::string& what) {
  Options options;
  for (const std::string argument : std::span(argv, static_cast<std::size_t>(argc))) {
    const char* quote = argument.find(' ') == std::string::npos ? "" : "'";
    const char* blank = options.command.empty() ? "" : " ";
    options.command += fmt::format("{}{}{}{}", blank, quote, argument, quote);
  }
  CLI::App app(what);
  std::vector<double> gate = {options.floor_low_ns, options.floor_high_ns};
  app.add_option("--cores", options.cores, "the two cores to run on")
      ->expected(2)
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "samples of each entrant; the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", options.sample_seconds, "length of a sample")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--gate", gate, "a sample counts where the floor is between these, in ns")
      ->expected(2)
      ->capture_default_str();
  app.add_option("--only", options.only, "columns whose path contains this, as in spin/throughput");
  app.add_option("--queue", options.queue, "entrants whose name contains this");
  app.add_flag("--quick", options.quick, "one short round without a gate: does it run at all?");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) std::exit(app.exit(error));  // --help
    fail(ErrorCode::usage, "{}", error.what());
  }
  options.floor_low_ns = gate[0];
  options.floor_high_ns = gate[1];
  if (options.quick) {
    options.rounds = 1;
    options.sample_seconds = 0;
    options.fewest_items = 16;
  }
  return options;
}

Usage run_together(const std::vector<Body>& bodies) {
  std::vector<Clock::time_point> starts(bodies.size()), ends(bodies.size());
  std::atomic<std::size_t> ready{0};
  const double cpu_before = process_cpu_seconds(), sleeps_before = process_sleeps();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < bodies.size(); ++i)
      threads.emplace_back([&, i] {
        pin_to(bodies[i].cores);
        ready.fetch_add(1);
        while (ready.load() < bodies.size()) std::this_thread::yield();
        starts[i] = Clock::now();
        bodies[i].work();
        ends[i] = Clock::now();
      });
  }
  return {seconds_between(*std::min_element(starts.begin(), starts.end()),
                          *std::max_element(ends.begin(), ends.end())),
          process_cpu_seconds() - cpu_before, process_sleeps() - sleeps_before};
}

// The median of short batches: a batch in which a thread lost its core does not count.
double measure_floor(int core, int other) {
  constexpr int batches = 21, trips = 400;
  alignas(64) std::atomic<std::uint64_t> line{0};
  std::vector<double> batch_ns;
  const auto ping = [&] {
    std::uint64_t value = 0;
    for (int batch = 0; batch < batches; ++batch) {
      const auto start = Clock::now();
      for (int trip = 0; trip < trips; ++trip, value += 2) {
        line.store(value + 1, std::memory_order_release);
        while (line.load(std::memory_order_acquire) != value + 2) {
        }
      }
      batch_ns.push_back(1e9 * seconds_between(start, Clock::now()) / trips);
    }
  };
  const auto pong = [&] {
    for (std::uint64_t value = 0; value < 2ULL * batches * trips; value += 2) {
      while (line.load(std::memory_order_acquire) != value + 1) {
      }
      line.store(value + 2, std::memory_order_release);
    }
  };
  run_together({{{core}, ping}, {{other}, pong}});
  return median(batch_ns);
}

namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

}  // namespace

void print_heading(const std::string& title, const Options& options) {
  utsname system{};
  uname(&system);
  const std::time_t now = std::time(nullptr);
  char date[16];
  std::strftime(date, sizeof date, "%Y-%m-%d", std::localtime(&now));
  fmt::print("# {}, {}\n\n", title, date);
  fmt::print("Machine: {}, {} cores, {} {}, g++ {}. {}\n\n", processor(),
             std::thread::hardware_concurrency(), system.sysname, system.release, __VERSION__,
             HEADRACE_BENCH_VERSIONS);
  fmt::print("    {}\n\n", options.command);
  if (options.quick)
    fmt::print("A smoke run: one short sample each, without a gate. The figures mean nothing.\n\n");
  else
    fmt::print(
        "Cores {} and {}. Medians of {} samples of about {:g} ms (least to most), competitors "
        "alternating round by round. A sample counts where a cache line's round trip before "
        "and after it takes {:g} to {:g} ns.\n\n",
        options.cores[0], options.cores[1], options.rounds, 1e3 * options.sample_seconds,
        options.floor_low_ns, options.floor_high_ns);
}

int run_main(const char* program, const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return error.exit_status();
  }
}

}  // namespace headrace::bench
