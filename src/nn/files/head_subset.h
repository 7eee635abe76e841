// A part of the vocabulary that stands for all of it in one training step's softmax: the head is
// most of a drafter's work, and almost all of its probability lies on a few thousand tokens. No
// libtorch here.
//
//   plain   frequent tokens and the tokens of the step's own batch: each for itself
//   tail    tokens drawn at random from the others, each standing for (others / drawn) of them;
//   their logits get the
//           logarithm of that (sampled softmax with a uniform proposal), so that rare tokens are
//           pushed down too
//
// Generation always uses the whole head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/counter_rng.h"
#include "nn/files/cross_entropy.h"

namespace headrace {

struct HeadSubset {
  std::vector<std::int64_t> ids;  // plain tokens ascending, then the tail
  LogitTail tail;

  // Where a plain token stands in `ids`.
  std::int64_t index_of(std::int64_t token) const;
};

// `frequent` and `batch`: token ids below `vocab`, in any order, with repetitions. Where fewer than
// `drawn` tokens are left, the tail is all of them.
HeadSubset head_subset(std::int64_t vocab, std::span<const std::int64_t> frequent,
                       std::span<const std::int32_t> batch, std::int64_t drawn, CounterRng rng);

}  // namespace headrace
