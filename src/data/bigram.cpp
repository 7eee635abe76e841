#include "headrace/bigram.h"

#include <algorithm>

namespace headrace {

void BigramTable::add(std::span<const std::int32_t> tokens) {
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto first = static_cast<std::uint32_t>(tokens[i]);
    const std::int32_t second = tokens[i + 1];
    const std::uint32_t count =
        ++counts_[std::uint64_t{first} << 32 | static_cast<std::uint32_t>(second)];
    if (first >= best_.size()) best_.resize(first + std::size_t{1});
    Best& best = best_[first];
    if (count > best.count || (count == best.count && second < best.token)) best = {second, count};
  }
}

std::int32_t BigramTable::next(std::int32_t token) const {
  const auto index = static_cast<std::uint32_t>(token);
  return index < best_.size() ? best_[index].token : -1;
}

std::vector<std::int32_t> BigramTable::chain(std::int32_t token, std::size_t count) const {
  std::vector<std::int32_t> tokens;
  while (tokens.size() < count && (token = next(token)) >= 0) tokens.push_back(token);
  return tokens;
}

Acceptance bigram_acceptance(const BigramTable& table,
                             std::span<const std::vector<std::int32_t>> continuations,
                             std::size_t block) {
  Acceptance sum;
  for (const std::vector<std::int32_t>& continuation : continuations)
    sum += acceptance_cycles(continuation, [&](std::size_t position) {
      return table.chain(continuation[position - 1], std::max<std::size_t>(block, 1) - 1);
    });
  return sum;
}

}  // namespace headrace
