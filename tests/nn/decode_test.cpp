#include "nn/decode.h"

#include <gtest/gtest.h>

#include <map>

#include "gguf_writer.h"
#include "headrace/error.h"
#include "nn/evaluate.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

using testing::RandomLlama;
using testing::TemporaryFolder;

class Decode : public ::testing::Test {
 protected:
  Decode()
      : file_(
            GgufFile::open(testing::write_random_llama(folder_.path(), RandomLlama{.layers = 8}))),
        target_(Target::load(file_, Precision::fp32)),
        config_{.target = target_.shape(),
                .layers = 1,
                .block = 4,
                .taps = tap_layers(8, 3),
                .mask_token = 5} {}

  Drafter drafter(std::uint64_t seed) const {
    return Drafter(config_, Drafter::random_parameters(config_, seed), target_.embedding(),
                   target_.head());
  }
  std::vector<std::int32_t> prompt(std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<std::int32_t> tokens(1 + random() % 20);
    for (auto& token : tokens)
      token =
          static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(target_.shape().vocab));
    return tokens;
  }

  TemporaryFolder folder_;
  GgufFile file_;
  Target target_;
  DrafterConfig config_;
};

// Whatever the drafter proposes, greedy output is the target's own, and the plain decoder finds no
// difference.
TEST_F(Decode, IsLosslessWithAnyDrafter) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const auto text = prompt(seed);
    const DecodeResult plain = decode(target_, nullptr, text, {.max_tokens = 40});
    ASSERT_EQ(plain.tokens.size(), 40u);
    EXPECT_EQ(plain.passes, 39);
    const Drafter any = drafter(seed);
    const DecodeResult speculative = decode(target_, &any, text, {.max_tokens = 40});
    EXPECT_EQ(speculative.tokens, plain.tokens);
    EXPECT_LE(speculative.passes, plain.passes);
    EXPECT_TRUE(verify_greedy(target_, text, speculative.tokens).differences.empty());
  }
}

TEST_F(Decode, VerifyFindsAPlantedDifferenceAndGoesOn) {
  const auto text = prompt(1);
  auto tokens = decode(target_, nullptr, text, {.max_tokens = 20}).tokens;
  const std::int32_t good = tokens[7];
  tokens[7] = (good + 1) % static_cast<std::int32_t>(target_.shape().vocab);
  const Verification verification = verify_greedy(target_, text, std::span(tokens).first(8));
  ASSERT_EQ(verification.differences.size(), 1u);
  EXPECT_EQ(verification.differences[0].index, 7u);
  EXPECT_EQ(verification.differences[0].plain, good);
  EXPECT_GT(verification.differences[0].gap, 0);
}

TEST_F(Decode, EndsAtAnEndTokenAndWhenAsked) {
  const auto text = prompt(2);
  const auto tokens = decode(target_, nullptr, text, {.max_tokens = 30}).tokens;
  const Drafter any = drafter(1);
  const std::int32_t end = tokens[11];
  const auto first =
      static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), end) - tokens.begin());
  const DecodeResult ended =
      decode(target_, &any, text,
             {.max_tokens = 30, .is_end = [&](std::int32_t id) { return id == end; }});
  EXPECT_EQ(ended.tokens.size(), first + 1);
  std::size_t seen = 0;
  const DecodeResult stopped = decode(
      target_, &any, text, {.max_tokens = 30, .emit = [&](std::int32_t) { return ++seen < 5; }});
  EXPECT_EQ(stopped.tokens.size(), 5u);
}

// At a temperature the output keeps the target's distribution: compare the second token with and
// without a drafter.
TEST_F(Decode, SamplingKeepsTheDistribution) {
  const auto text = prompt(3);
  const Drafter any = drafter(2);
  constexpr int kRuns = 300;
  std::map<std::int32_t, int> with, without;
  for (int run = 0; run < kRuns; ++run) {
    const auto seed = static_cast<std::uint64_t>(run);
    ++without[decode(target_, nullptr, text, {.max_tokens = 3, .temperature = 0.4, .seed = seed})
                  .tokens[2]];
    ++with[decode(target_, &any, text, {.max_tokens = 3, .temperature = 0.4, .seed = seed + 100000})
               .tokens[2]];
  }
  for (const auto& [token, count] : without) {
    const double p = (count + with[token]) / (2.0 * kRuns);
    EXPECT_LT(std::abs(count - with[token]), 5 * std::sqrt(2 * kRuns * p * (1 - p)) + 3) << token;
  }
}

TEST_F(Decode, RefusesWhatDoesNotFit) {
  EXPECT_THROW(decode(target_, nullptr, {}, {}), Error);
  EXPECT_THROW(decode(target_, nullptr, prompt(1), {.max_tokens = 1000}), Error);
}

// The evaluation judges a drafter without the target: it must count the passes that decoding really
// needs.
TEST_F(Decode, EvaluationCountsThePassesOfDecoding) {
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::uint64_t seed = 10; seed < 16; ++seed) prompts.push_back(prompt(seed));
  constexpr std::int64_t kTokens = 24;
  const Continuations continuations =
      continue_greedily(target_, prompts, kTokens, config_.taps, torch::kFloat32);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Drafter any = drafter(seed);
    std::int64_t passes = 0, emitted = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const DecodeResult result = decode(target_, &any, prompts[i], {.max_tokens = kTokens});
      const auto expected = continuations.continuation(i);
      EXPECT_EQ(result.tokens, std::vector<std::int32_t>(expected.begin(), expected.end()));
      passes += result.passes;
      emitted += kTokens - 1;
    }
    EXPECT_DOUBLE_EQ(evaluate(any, continuations).tau.all,
                     static_cast<double>(emitted) / static_cast<double>(passes));
  }
}

}  // namespace
}  // namespace headrace
