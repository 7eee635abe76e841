// Competitors measured in alternating rounds, and the Markdown table of their medians.
//
// On a virtual machine two cores are sometimes siblings of one physical core, and every queue then
// looks five times faster. So the floor is measured before and after each sample, and a sample
// counts only where both lie inside the gate.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness.h"

namespace headrace::bench {

// One way to run an entrant on a number of items or trips.
struct Variant {
  std::string mark;  // stands behind the figure where this variant was the fastest
  std::function<Usage(std::uint64_t)> run;
};

enum class Role {
  ours,
  rival,
  reference,  // stands in the table, but promises less than a channel does: no rival
  baseline,   // one thread without a queue
};

struct Entrant {
  std::string name;
  Role role;
  std::vector<Variant> variants;  // the fastest in the median counts
};

struct Column {
  std::string name;  // also the end of the path that --only selects by
  std::vector<Entrant> entrants;
};

enum class Unit {
  million_items_per_second,
  nanoseconds,  // per item or trip
};

struct Table {
  std::string title;
  std::string path;  // "spin/throughput"; with "/" and the column's name: what --only selects by
  Unit unit;
  bool show_usage = false;           // cores busy and sleeps an item
  bool ratio_to_each_rival = false;  // rather than to the fastest alone
  int baseline_cores = 0;  // the ideal is the baseline's time over these; 0: there is no baseline
  std::vector<Column> columns;  // all with the same entrants
};

// Measures the columns selected, and prints the table to standard output, progress to standard
// error. Below the entrants stands, for each of ours, its speed over that of rivals.
// Nothing is printed where no column is selected.
void measure_and_print(const Table& table, const Options& options);

}  // namespace headrace::bench
