#include "nn/files/head_subset.h"

#include <algorithm>
#include <cmath>

#include "headrace/error.h"

namespace headrace {

constexpr std::int64_t kSizeStep = 256;

std::int64_t HeadSubset::index_of(std::int64_t token) const {
  const auto end = ids.end() - tail.size;
  const auto found = std::lower_bound(ids.begin(), end, token);
  if (found == end || *found != token)
    fail(ErrorCode::internal, "token {} is not in the step's part of the head", token);
  return found - ids.begin();
}

HeadSubset head_subset(std::int64_t vocab, std::span<const std::int64_t> frequent,
                       std::span<const std::int32_t> batch, std::int64_t drawn, CounterRng rng) {
  std::vector<bool> taken(static_cast<std::size_t>(vocab), false);
  for (const std::int64_t token : frequent) taken.at(static_cast<std::size_t>(token)) = true;
  for (const std::int32_t token : batch) taken.at(static_cast<std::size_t>(token)) = true;
  HeadSubset subset;
  for (std::int64_t token = 0; token < vocab; ++token)
    if (taken[static_cast<std::size_t>(token)]) subset.ids.push_back(token);
  const auto plain = static_cast<std::int64_t>(subset.ids.size());
  const std::int64_t others = vocab - plain;
  if (drawn > 0) drawn = (plain + drawn + kSizeStep - 1) / kSizeStep * kSizeStep - plain;
  if (drawn >= others) {
    for (std::int64_t token = 0; token < vocab; ++token)
      if (!taken[static_cast<std::size_t>(token)]) subset.ids.push_back(token);
    subset.tail.size = others;
    return subset;
  }
  while (subset.tail.size < drawn) {
    const auto token = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(vocab)));
    if (taken[static_cast<std::size_t>(token)]) continue;
    taken[static_cast<std::size_t>(token)] = true;
    subset.ids.push_back(token);
    ++subset.tail.size;
  }
  if (drawn > 0)
    subset.tail.bias = std::log(static_cast<double>(others) / static_cast<double>(drawn));
  return subset;
}

}  // namespace headrace
