#include "headrace/acceptance.h"

#include <algorithm>

namespace headrace {

Acceptance acceptance_cycles(std::span<const std::int32_t> continuation, const Propose& propose) {
  Acceptance result;
  for (std::size_t position = 1; position < continuation.size(); ++result.passes) {
    const auto rest = continuation.subspan(position);
    const std::vector<std::int32_t> proposed = propose(position);
    const auto accepted = std::ranges::mismatch(proposed, rest).in2 - rest.begin();
    const std::size_t emitted = std::min(static_cast<std::size_t>(accepted) + 1, rest.size());
    position += emitted;
    result.emitted += emitted;
  }
  return result;
}

}  // namespace headrace
