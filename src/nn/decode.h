// Lossless speculative decoding: the drafter proposes a block, one target pass verifies it, and
// every emitted token is the target's own choice (reference: DFlash section "inference";
// z-lab/dflash model.py).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "headrace/gguf.h"
#include "headrace/safetensors.h"
#include "nn/drafter_config.h"

namespace headrace {

class Drafter;
class Target;

struct DecodeOptions {
  std::int64_t max_tokens = 128;
  double temperature = 0;                    // 0: greedy
  std::uint64_t seed = 1;                    // of sampling
  std::function<bool(std::int32_t)> is_end;  // ends generation; the token is emitted
  std::function<bool(std::int32_t)> emit;    // called for each token as it is decided; false stops
};

struct DecodeResult {
  std::vector<std::int32_t> tokens;
  std::int64_t passes = 0;  // target passes after the prefill
  double seconds = 0;       // without the prefill
  // Tokens a pass: the first token comes from the prefill and is not counted.
  double tau() const {
    return passes > 0 ? static_cast<double>(tokens.size() - 1) / static_cast<double>(passes) : 0;
  }
};

// Error(bad_input) where prompt and max_tokens exceed the model's context or the prompt is empty.
// Without a drafter each pass gives one token.
DecodeResult decode(const Target& target, const Drafter* drafter,
                    std::span<const std::int32_t> prompt, const DecodeOptions& options);

// A place where the plain greedy choice differs from the emitted token.
struct Difference {
  std::size_t index = 0;  // into tokens
  std::int32_t plain = 0, emitted = 0;
  double gap = 0;  // log-probability of the plain choice minus that of the emitted token
  bool near_tie() const { return gap < 1e-3; }
};

struct Verification {
  std::vector<Difference> differences;
  std::int64_t passes = 0;
  double seconds = 0;
};

// Decodes one token at a time, greedily, along `tokens` (after a difference it goes on from the
// emitted token), and reports each place where the greedy choice is another.
Verification verify_greedy(const Target& target, std::span<const std::int32_t> prompt,
                           std::span<const std::int32_t> tokens);

// A position's token, its log-probability, and the most likely tokens with theirs.
struct TokenScore {
  std::int32_t token = 0;
  double log_probability = 0;
  std::vector<std::pair<std::int32_t, double>> best;
};

// A target in fp32, with a drafter or without, for the commands that generate and show.
class Decoder {
 public:
  explicit Decoder(const GgufFile& target);
  // Weights as a checkpoint's model.safetensors has them.
  void use_drafter(const DrafterConfig& config, const SafeTensorsFile& weights);

  DecodeResult decode(std::span<const std::int32_t> prompt, const DecodeOptions& options) const;
  Verification verify_greedy(std::span<const std::int32_t> prompt,
                             std::span<const std::int32_t> tokens) const;
  // Of each token after the first. Error(bad_input) for fewer than two tokens or more than the
  // model's context.
  std::vector<TokenScore> score(std::span<const std::int32_t> tokens, std::size_t best) const;

 private:
  std::shared_ptr<const Target> target_;
  std::shared_ptr<const Drafter> drafter_;
};

}  // namespace headrace
