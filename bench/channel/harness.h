// What the benchmarks of channels run in: flags, pinned threads that start together, and the floor,
// a bare round trip of one cache line between two cores.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace headrace::bench {

struct Options {
  std::string command;  // as typed
  std::vector<int> cores = {0, 1};
  int rounds = 5;
  double sample_seconds = 0.05;
  std::uint64_t fewest_items = 256;  // a sample
  double floor_low_ns = 150, floor_high_ns = 400;
  std::string only;    // columns whose path contains this text; empty: all
  std::string queue;   // entrants whose name contains this text; empty: all
  bool quick = false;  // no gate
};

// The flags that every benchmark of channels has. Error(usage) where they are wrong; ends the
// program for --help. `what`: one sentence for --help.
Options parse_options(int argc, char** argv, const std::string& what);

// What a group of threads needed. CPU time and sleeps are those of the whole process: the threads
// of a library that works for the group count too.
struct Usage {
  double seconds = 0;  // from the first start to the last end
  double cpu_seconds = 0;
  double sleeps = 0;  // voluntary context switches
};

struct Body {
  std::vector<int> cores;  // it runs on these alone
  std::function<void()> work;
};

// Runs each body in a thread of its own; all start together. A body must not throw.
Usage run_together(const std::vector<Body>& bodies);

double process_cpu_seconds();
double median(std::vector<double> values);  // not empty

// Nanoseconds a round trip of one cache line takes between two cores.
double measure_floor(int core, int other);

// Machine, date, versions, command, gate: what a committed table has to say.
void print_heading(const std::string& title, const Options& options);

// Runs `body`; an Error is printed and becomes the exit status.
int run_main(const char* program, const std::function<void()>& body);

}  // namespace headrace::bench
