#include "nn/objective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "nn/reference_drafter.h"

namespace headrace {
namespace {

using namespace testing;

class SlotLosses : public ::testing::Test {
 protected:
  // Random hidden states of the blocks, and the losses that a plain softmax over `logits` gives
  // them.
  struct Plain {
    double numerator = 0, denominator = 0;
  };

  Tensor random_hidden(std::uint64_t seed) const {
    torch::manual_seed(seed);
    return torch::randn({2, 3, model_.config.block, model_.config.target.hidden}, torch::kFloat64);
  }

  // Cross entropies of a block's slots, slot by slot; `bias` is added to each logit.
  std::vector<std::vector<double>> block_losses(const Tensor& hidden, const Tensor& bias) const {
    std::vector<std::vector<double>> blocks;
    for (std::int64_t r = 0; r < 2; ++r)
      for (std::int64_t a = 0; a < 3; ++a) {
        const auto anchor = batch_.anchors[r][a].item<std::int64_t>();
        if (anchor < 0) continue;
        std::vector<double>& losses = blocks.emplace_back();
        for (std::int64_t k = 1;
             k < model_.config.block && anchor + k < batch_.row_lengths[r].item<std::int64_t>();
             ++k) {
          const Tensor scores =
              torch::log_softmax(torch::mv(model_.head, hidden[r][a][k]) + bias, 0);
          losses.push_back(
              -scores[batch_.tokens[r][anchor + k].item<std::int64_t>()].item<double>());
        }
      }
    return blocks;
  }

  Tensor no_bias() const { return torch::zeros({model_.config.target.vocab}, torch::kFloat64); }

  Model model_ = random_model(small_config(), 21);
  DraftBatch batch_ = make_batch(model_.config, {12, 9}, {{1, 4, 10}, {2, 7}}, 22);
};

TEST_F(SlotLosses, DPaceWeighsASlotByWhatIsStillToBeAccepted) {
  const Tensor hidden = random_hidden(1);
  constexpr double a = 0.3;
  Plain expected;
  for (const auto& losses : block_losses(hidden, no_bias())) {
    std::vector<double> prefix;
    for (const double loss : losses)
      prefix.push_back((prefix.empty() ? 1 : prefix.back()) * ((1 - a) * std::exp(-loss) + a));
    for (std::size_t k = 0; k < losses.size(); ++k) {
      double weight = 0;
      for (std::size_t j = k; j < losses.size(); ++j) weight += prefix[j];
      expected.numerator += weight * losses[k];
      expected.denominator += weight;
    }
  }
  const ObjectiveResult result = objective(hidden, batch_, model_.head, {.dpace = a});
  EXPECT_NEAR(result.numerator.item<double>(), expected.numerator, 1e-10);
  EXPECT_NEAR(result.denominator, expected.denominator, 1e-12);
}

TEST_F(SlotLosses, WithEveryTokenAPartOfTheHeadIsTheWholeHead) {
  const Tensor hidden = random_hidden(2).requires_grad_(),
               again = hidden.detach().clone().requires_grad_();
  const std::vector<std::int32_t> tokens{0, 1};
  const std::vector<std::int64_t> frequent{3, 9, 20};
  // The labels of the batch are random: let every token be plain or in the tail.
  std::vector<std::int32_t> all_tokens;
  for (std::int64_t r = 0; r < 2; ++r)
    for (std::int64_t i = 0; i < batch_.tokens.size(1); ++i)
      all_tokens.push_back(static_cast<std::int32_t>(batch_.tokens[r][i].item<std::int64_t>()));
  const HeadSubset subset = head_subset(model_.config.target.vocab, frequent, all_tokens, 1000,
                                        CounterRng(1, Draw::head_tail, {2}));
  EXPECT_EQ(subset.ids.size(), static_cast<std::size_t>(model_.config.target.vocab));
  const ObjectiveResult part = objective(hidden, batch_, model_.head, {.subset = &subset});
  const ObjectiveResult whole = objective(again, batch_, model_.head, {});
  EXPECT_NEAR(part.numerator.item<double>(), whole.numerator.item<double>(), 1e-10);
  EXPECT_EQ(part.accepted, whole.accepted);
  part.numerator.backward();
  whole.numerator.backward();
  EXPECT_LT((hidden.grad() - again.grad()).abs().max().item<double>(), 1e-10);
}

// The drawn tokens stand for all others: the loss equals that of a softmax whose drawn logits carry
// the bias and whose other logits are gone.
TEST_F(SlotLosses, DrawnTokensCarryTheWeightOfTheOthers) {
  const Tensor hidden = random_hidden(3);
  std::vector<std::int32_t> tokens;
  for (std::int64_t r = 0; r < 2; ++r)
    for (std::int64_t i = 0; i < batch_.tokens.size(1); ++i)
      tokens.push_back(static_cast<std::int32_t>(batch_.tokens[r][i].item<std::int64_t>()));
  const std::set<std::int64_t> plain(tokens.begin(), tokens.end());
  HeadSubset subset{{plain.begin(), plain.end()}, {.size = 3, .bias = 1.7}};
  for (std::int64_t token = 0; subset.ids.size() < plain.size() + 3; ++token)
    if (!plain.count(token)) subset.ids.push_back(token);
  Tensor bias = torch::full({model_.config.target.vocab}, -1e30, torch::kFloat64);
  for (std::size_t i = 0; i < subset.ids.size(); ++i)
    bias[subset.ids[i]] = i + 3 < subset.ids.size() ? 0.0 : subset.tail.bias;
  double expected = 0;
  for (const auto& losses : block_losses(hidden, bias))
    for (std::size_t k = 0; k < losses.size(); ++k)
      expected += std::exp(-static_cast<double>(k) / 4) * losses[k];
  EXPECT_NEAR(objective(hidden, batch_, model_.head, {.subset = &subset}).numerator.item<double>(),
              expected, 1e-9);
}

TEST(TauExpected, IsOnePlusTheAcceptedPrefixes) {
  EXPECT_DOUBLE_EQ(expected_tau({}), 1);
  EXPECT_DOUBLE_EQ(expected_tau({0.5, 0.5, 0}), 1.75);
}

}  // namespace
}  // namespace headrace
