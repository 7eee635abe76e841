// Lossless speculative decoding: the drafter proposes a block, one target pass verifies it, and every emitted
// token is the target's own choice (reference: DFlash section "inference"; z-lab/dflash model.py).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nn/drafter.h"
#include "nn/target.h"

namespace headrace {

struct DecodeOptions {
  std::int64_t max_tokens = 128;
  double temperature = 0;                             // 0: greedy
  std::uint64_t seed = 1;                             // of sampling
  std::function<bool(std::int32_t)> is_end;           // ends generation; the token is emitted
  std::function<bool(std::int32_t)> emit;             // called for each token as it is decided; false stops
};

struct DecodeResult {
  std::vector<std::int32_t> tokens;
  std::int64_t passes = 0;       // target passes after the prefill
  double seconds = 0;            // without the prefill
  // Tokens a pass: the first token comes from the prefill and is not counted.
  double tau() const { return passes > 0 ? static_cast<double>(tokens.size() - 1) / static_cast<double>(passes) : 0; }
};

// Error(bad_input) where prompt and max_tokens exceed the model's context or the prompt is empty. Without a drafter
// each pass gives one token.
DecodeResult decode(const Target& target, const Drafter* drafter, std::span<const std::int32_t> prompt,
                    const DecodeOptions& options);

// A place where the plain greedy choice differs from the emitted token.
struct Difference {
  std::size_t index = 0;              // into tokens
  std::int32_t plain = 0, emitted = 0;
  double gap = 0;                     // log-probability of the plain choice minus that of the emitted token
  bool near_tie() const { return gap < 1e-3; }
};

struct Verification {
  std::vector<Difference> differences;
  std::int64_t passes = 0;
  double seconds = 0;
};

// Decodes one token at a time, greedily, along `tokens` (after a difference it goes on from the emitted token), and
// reports each place where the greedy choice is another.
Verification verify_greedy(const Target& target, std::span<const std::int32_t> prompt, std::span<const std::int32_t> tokens);

}  // namespace headrace
