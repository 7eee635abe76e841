// The anchors of a row: where its drafted blocks begin.
#pragma once

#include <cstdint>
#include <span>

#include "data/counter_rng.h"

namespace headrace {

// A row must hold one token of context, an anchor and the anchor's successor.
inline constexpr std::uint64_t kShortestRow = 3;

// Fills `anchors` with distinct positions drawn uniformly from [1, row_length - 2], ascending, then
// -1 where the row has fewer. Selection sampling (Knuth, TAOCP 2, algorithm S): one pass, no
// sorting.
inline void sample_anchors(CounterRng rng, std::uint64_t row_length,
                           std::span<std::int32_t> anchors) {
  std::size_t taken = 0;
  for (std::uint64_t position = 1; position + 1 < row_length && taken < anchors.size();
       ++position) {
    const std::uint64_t candidates = row_length - 1 - position;
    if (rng.below(candidates) < anchors.size() - taken)
      anchors[taken++] = static_cast<std::int32_t>(position);
  }
  for (; taken < anchors.size(); ++taken) anchors[taken] = -1;
}

}  // namespace headrace
