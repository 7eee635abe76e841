// How good a drafter is: tau over fixed prompts. Decoding is lossless, so the emitted text is the
// target's own greedy continuation: it is computed once, and every drafter is then judged against
// it without running the target again.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headrace/bigram.h"
#include "nn/drafter.h"
#include "nn/target.h"

namespace headrace {

// Prompts with the target's greedy continuation.
struct Continuations {
  std::vector<std::vector<std::int32_t>> sequences;  // prompt and continuation
  std::vector<std::size_t> prompt_lengths;
  std::vector<bool> loops;  // the last 16 tokens have a period of at most 8
  torch::Tensor tokens;     // [sequences, longest] int64, padded
  torch::Tensor features;   // [sequences, longest, taps * hidden]

  std::span<const std::int32_t> continuation(std::size_t i) const;
};

// Greedy continuation of each prompt by `count` tokens, all prompts in one ragged batch.
// `features_type`: what the drafter computes in. `stopping` is polled between passes:
// Error(cancelled).
Continuations continue_greedily(const Target& target,
                                const std::vector<std::vector<std::int32_t>>& prompts,
                                std::int64_t count, const std::vector<std::int64_t>& taps,
                                torch::ScalarType features_type,
                                const std::function<bool()>& stopping = {});

struct Tau {
  double all = 0;
  double without_loops = 0;  // 0 where every continuation loops
  std::size_t prompts = 0, looping = 0;
};

struct Evaluation {
  Tau tau;
  Tau first_half, second_half;     // of the prompts: code and prose in the evaluation prompts
  std::vector<double> acceptance;  // teacher-forced, a slot: share of positions whose proposal is
                                   // the target's token
};

Evaluation evaluate(const Drafter& drafter, const Continuations& continuations);
Tau evaluate(const BigramTable& table, const Continuations& continuations, std::int64_t block);

}  // namespace headrace
