#include "headrace/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headrace/error.h"

namespace headrace {
namespace {

template <typename Things>
const auto& named(const Things& things, const std::string& name, const char* kind) {
  const auto found = std::find_if(things.begin(), things.end(),
                                  [&](const auto& thing) { return thing.name == name; });
  if (found == things.end()) fail(ErrorCode::internal, "the plan has no {} \"{}\"", kind, name);
  return *found;
}

}  // namespace

// Quantiles are joined by straight lines, and are flat outside the first and the last.
double Cost::at(double probability) const {
  if (!known()) fail(ErrorCode::internal, "a cost that is not known was asked for");
  if (quantiles.empty()) {
    std::vector<double> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    const double rank = std::ceil(probability * static_cast<double>(sorted.size())) - 1;
    return sorted[static_cast<std::size_t>(std::max(rank, 0.0))];
  }
  const auto above = quantiles.lower_bound(probability);
  if (above == quantiles.end()) return quantiles.rbegin()->second;
  if (above == quantiles.begin() || above->first == probability) return above->second;
  const auto below = std::prev(above);
  const double share = (probability - below->first) / (above->first - below->first);
  return below->second + share * (above->second - below->second);
}

double Cost::mean() const {
  if (!known()) fail(ErrorCode::internal, "a cost that is not known was asked for");
  if (quantiles.empty())
    return std::accumulate(samples.begin(), samples.end(), 0.0) /
           static_cast<double>(samples.size());
  // The area under the inverse distribution function.
  double area = quantiles.begin()->first * quantiles.begin()->second +
                (1 - quantiles.rbegin()->first) * quantiles.rbegin()->second;
  for (auto right = std::next(quantiles.begin()); right != quantiles.end(); ++right) {
    const auto left = std::prev(right);
    area += (right->first - left->first) * (left->second + right->second) / 2;
  }
  return area;
}

const Stage& Plan::stage(const std::string& wanted) const {
  return named(stages, wanted, "stage");
}

const Resource& Plan::resource(const std::string& wanted) const {
  return named(resources, wanted, "resource");
}

const Channel& Plan::channel(const std::string& wanted) const {
  return named(channels, wanted, "channel");
}

}  // namespace headrace
