#include "contest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "headrace/error.h"

namespace headrace::bench {
namespace {

struct Sample {
  double seconds_per_item, cores_busy, sleeps_per_item;
};

struct Contest {
  const Entrant* entrant;
  const Variant* variant;
  std::uint64_t items = 0;  // a sample
  std::vector<Sample> samples;
};

// Samples between two measurements of the floor.
class Gate {
 public:
  explicit Gate(const Options& options) : options_(options) {
    if (!options_.quick) floor_ns_ = floor();
  }

  // Repeats `run` until a sample counts. Error(resource) where the floor stays outside for about a
  // minute.
  Usage sample(const std::function<Usage()>& run) {
    if (options_.quick) return run();
    constexpr int most_attempts = 200;
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      const double before = floor_ns_;
      const Usage usage = run();
      floor_ns_ = floor();
      if (inside(before) && inside(floor_ns_)) {
        floors_ns_.push_back(floor_ns_);
        return usage;
      }
      ++thrown_;
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      floor_ns_ = floor();
    }
    fail(ErrorCode::resource,
         "cores {} and {}: a cache line's round trip takes {:.0f} ns, outside the gate of {} to {} "
         "ns: below it they share one physical core, above it other work disturbs them; wait, or "
         "set --gate to what this machine has",
         options_.cores[0], options_.cores[1], floor_ns_, options_.floor_low_ns,
         options_.floor_high_ns);
  }

  std::string describe() const {
    if (options_.quick) return "no gate";
    const auto [low, high] = std::minmax_element(floors_ns_.begin(), floors_ns_.end());
    return fmt::format("floor {:.0f} ns ({:.0f} to {:.0f}), {} samples thrown away",
                       median(floors_ns_), *low, *high, thrown_);
  }

 private:
  double floor() const { return measure_floor(options_.cores[0], options_.cores[1]); }
  bool inside(double ns) const {
    return ns >= options_.floor_low_ns && ns <= options_.floor_high_ns;
  }

  const Options& options_;
  double floor_ns_ = 0;
  std::vector<double> floors_ns_;
  int thrown_ = 0;
};

// How many items fill a sample: doubled until a tenth of it is filled, then in proportion.
std::uint64_t items_of_a_sample(const Variant& variant, const Options& options) {
  const double seconds = options.sample_seconds;
  for (std::uint64_t items = options.fewest_items;; items *= 2) {
    const double needed = variant.run(items).seconds;
    if (needed < seconds / 10) continue;
    return std::max(options.fewest_items,
                    static_cast<std::uint64_t>(seconds / needed * static_cast<double>(items)));
  }
}

// What a table shows of one entrant in one column.
struct Result {
  std::string name, mark;
  Role role;
  double median_seconds, least_seconds, most_seconds, cores_busy, sleeps_per_item;
};

template <typename Get>
std::vector<double> values(const std::vector<Sample>& samples, Get get) {
  std::vector<double> all;
  for (const Sample& sample : samples) all.push_back(get(sample));
  return all;
}

Result result_of(const Contest& contest) {
  const auto seconds = values(contest.samples, [](const Sample& s) { return s.seconds_per_item; });
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  return {contest.entrant->name,
          contest.variant->mark,
          contest.entrant->role,
          median(seconds),
          *least,
          *most,
          median(values(contest.samples, [](const Sample& s) { return s.cores_busy; })),
          median(values(contest.samples, [](const Sample& s) { return s.sleeps_per_item; }))};
}

std::vector<Result> run_column(const Column& column, const Options& options, Gate& gate) {
  std::vector<Contest> contests;
  for (const Entrant& entrant : column.entrants)
    if (entrant.name.find(options.queue) != std::string::npos)
      for (const Variant& variant : entrant.variants) contests.push_back({&entrant, &variant});
  for (Contest& contest : contests) contest.items = items_of_a_sample(*contest.variant, options);
  for (int round = 0; round < options.rounds; ++round)
    for (Contest& contest : contests) {
      const Usage usage = gate.sample([&] { return contest.variant->run(contest.items); });
      const auto items = static_cast<double>(contest.items);
      contest.samples.push_back(
          {usage.seconds / items, usage.cpu_seconds / usage.seconds, usage.sleeps / items});
    }
  std::vector<Result> results;
  for (const Contest& contest : contests) {
    const Result result = result_of(contest);
    if (!results.empty() && results.back().name == result.name) {
      if (result.median_seconds < results.back().median_seconds) results.back() = result;
    } else {
      results.push_back(result);
    }
  }
  return results;
}

double shown(Unit unit, double seconds) {
  return unit == Unit::nanoseconds ? 1e9 * seconds : 1e-6 / seconds;
}

std::string figure(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, value >= 10 ? 1 : value >= 1 ? 2 : 3);
}

// `ideal_seconds`: 0 where the table has no ideal.
std::string cell(const Table& table, const Result& result, double ideal_seconds) {
  double low = shown(table.unit, result.least_seconds);
  double high = shown(table.unit, result.most_seconds);
  if (low > high) std::swap(low, high);
  std::string text =
      fmt::format("{}{} ({} to {})", figure(shown(table.unit, result.median_seconds)), result.mark,
                  figure(low), figure(high));
  if (ideal_seconds > 0)
    text += fmt::format(", {:+.1f} %", 100 * (result.median_seconds / ideal_seconds - 1));
  if (table.show_usage)
    text += fmt::format(", {:.2f} cores, {:.4f} sleeps", result.cores_busy, result.sleeps_per_item);
  return text;
}

const Result& fastest_rival(const std::vector<Result>& results) {
  return *std::min_element(results.begin(), results.end(), [](const Result& a, const Result& b) {
    if (a.role != b.role) return a.role == Role::rival;
    return a.median_seconds < b.median_seconds;
  });
}

std::vector<std::size_t> with_role(const std::vector<Result>& results, Role role) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results[i].role == role) found.push_back(i);
  return found;
}

// What no pipeline can beat; 0 without a baseline.
double ideal_seconds(const Table& table, const std::vector<Result>& results) {
  double seconds = 0;
  for (const std::size_t i : with_role(results, Role::baseline))
    seconds = results[i].median_seconds / table.baseline_cores;
  return seconds;
}

void print_rows(const Table& table, const std::vector<std::vector<Result>>& columns) {
  const auto row = [&](const std::string& name, const auto& cell_of) {
    std::string line = fmt::format("| {} |", name);
    for (const auto& results : columns) line += fmt::format(" {} |", cell_of(results));
    fmt::print("{}\n", line);
  };
  const std::vector<Result>& first = columns.front();
  for (std::size_t i = 0; i < first.size(); ++i)
    row(first[i].name, [&](const auto& results) {
      const bool baseline = results[i].role == Role::baseline;
      return cell(table, results[i], baseline ? 0 : ideal_seconds(table, results));
    });

  const auto rivals = with_role(first, Role::rival);
  if (rivals.empty()) return;
  for (const std::size_t own : with_role(first, Role::ours)) {
    const auto speed_over = [own](const auto& results, const Result& rival) {
      return fmt::format("{:.2f}", rival.median_seconds / results[own].median_seconds);
    };
    if (table.ratio_to_each_rival) {
      std::vector<std::string> names;
      for (const std::size_t rival : rivals) names.push_back(first[rival].name);
      row(fmt::format("**{}**, speed over {}", first[own].name, fmt::join(names, " / ")),
          [&](const auto& results) {
            std::vector<std::string> speeds;
            for (const std::size_t rival : rivals)
              speeds.push_back(speed_over(results, results[rival]));
            return fmt::format("**{}**", fmt::join(speeds, " / "));
          });
    } else {
      row(fmt::format("**{}**, speed over the fastest rival", first[own].name),
          [&](const auto& results) {
            const Result& rival = fastest_rival(results);
            return fmt::format("**{}** {}", speed_over(results, rival), rival.name);
          });
    }
  }
}

}  // namespace

void measure_and_print(const Table& table, const Options& options) {
  std::vector<std::vector<Result>> columns;
  std::string head = "| |", rule = "|---|";
  Gate gate(options);
  for (const Column& column : table.columns) {
    const std::string path = table.path + "/" + column.name;
    if (path.find(options.only) == std::string::npos) continue;
    fmt::print(stderr, "{}\n", path);
    columns.push_back(run_column(column, options, gate));
    head += " " + column.name + " |";
    rule += "---|";
  }
  if (columns.empty() || columns.front().empty()) return;
  fmt::print("## {}\n\n{}; {}.\n\n{}\n{}\n", table.title,
             table.unit == Unit::nanoseconds ? "ns" : "Million items a second", gate.describe(),
             head, rule);
  print_rows(table, columns);
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace headrace::bench
