#include "model/steady.h"

#include <algorithm>
#include <cmath>

namespace headrace {
namespace {

double percentile(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size())) - 1;
  return sorted[static_cast<std::size_t>(std::max(rank, 0.0))];
}

}  // namespace

void summarise(const std::vector<double>& step_ends, std::size_t first_done,
               Simulation& simulation) {
  const std::size_t steps = step_ends.size();
  if (steps == 0) return;
  std::vector<double> intervals(steps);
  for (std::size_t i = 0; i < steps; ++i)
    intervals[i] = step_ends[i] - (i == 0 ? 0 : step_ends[i - 1]);
  const std::size_t first = steps / 5;
  const std::size_t last =
      first_done >= first + std::max<std::size_t>(steps / 5, 1) ? first_done : steps;
  intervals.erase(intervals.begin() + static_cast<std::ptrdiff_t>(last), intervals.end());
  intervals.erase(intervals.begin(), intervals.begin() + static_cast<std::ptrdiff_t>(first));
  const double begin = first == 0 ? 0 : step_ends[first - 1];
  simulation.step_seconds = (step_ends[last - 1] - begin) / static_cast<double>(last - first);
  std::sort(intervals.begin(), intervals.end());
  simulation.interval_low = percentile(intervals, 0.05);
  simulation.interval_high = percentile(intervals, 0.95);
}

}  // namespace headrace
