// How many tokens a verify pass emits: the loop that counts them, whoever proposes. Layer: data.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace headrace {

// Counts over verify passes; sums over texts with +=.
struct Acceptance {
  std::uint64_t emitted = 0;  // tokens that verify passes emitted
  std::uint64_t passes = 0;

  double tau() const {
    return passes == 0 ? 0 : static_cast<double>(emitted) / static_cast<double>(passes);
  }
  Acceptance& operator+=(const Acceptance& other) {
    emitted += other.emitted;
    passes += other.passes;
    return *this;
  }
  bool operator==(const Acceptance&) const = default;
};

// Proposed tokens for continuation[position], continuation[position + 1], ...: any number, none
// too. What the proposer may look at is the prompt and continuation[0, position).
using Propose = std::function<std::vector<std::int32_t>(std::size_t position)>;

// Speculative decoding of a known greedy continuation. The first token comes from the prefill, not
// from a verify pass. A pass then accepts the leading proposed tokens that are the continuation's
// and emits one more, the target's own, as long as tokens are left: a continuation of n tokens
// gives n - 1 emitted.
Acceptance acceptance_cycles(std::span<const std::int32_t> continuation, const Propose& propose);

}  // namespace headrace
