#include "headrace/acceptance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <stdexcept>

namespace headrace {
namespace {

using ::testing::ElementsAre;
using Tokens = std::vector<std::int32_t>;

TEST(AcceptanceCycles, ByHand) {
  const Tokens text = {10, 11, 12, 13, 14, 15};
  // Nothing proposed: the five tokens after the prefill's take a pass each.
  EXPECT_EQ(acceptance_cycles(text, [](std::size_t) { return Tokens{}; }), (Acceptance{5, 5}));
  // All right, two at a time: 3 tokens, then the last 2 (of which only one is needed as a
  // proposal).
  std::vector<std::size_t> asked;
  EXPECT_EQ(acceptance_cycles(text,
                              [&](std::size_t p) {
                                asked.push_back(p);
                                return Tokens{text[p], p + 1 < text.size() ? text[p + 1] : 0};
                              }),
            (Acceptance{5, 2}));
  EXPECT_THAT(asked, ElementsAre(1, 4));
  // Wrong, right: a token after a refused one does not count.
  EXPECT_EQ(acceptance_cycles(text,
                              [&](std::size_t p) {
                                return Tokens{0, text[std::min<std::size_t>(p + 1, 5)]};
                              }),
            (Acceptance{5, 5}));
  // A proposal longer than what is left emits only what is left.
  EXPECT_EQ(
      acceptance_cycles(text, [&](std::size_t) { return Tokens{11, 12, 13, 14, 15, 16, 17}; }),
      (Acceptance{5, 1}));
}

TEST(AcceptanceCycles, NothingIsToBeVerifiedInOneTokenOrNone) {
  const auto never = [](std::size_t) -> Tokens { throw std::logic_error("asked"); };
  EXPECT_EQ(acceptance_cycles(Tokens{}, never), (Acceptance{0, 0}));
  EXPECT_EQ(acceptance_cycles(Tokens{1}, never), (Acceptance{0, 0}));
  EXPECT_EQ(Acceptance{}.tau(), 0);
}

// Whatever is proposed: every token after the first is emitted, in no fewer passes than the longest
// proposal allows, and the proposer is asked at the place that plain decoding has reached.
TEST(AcceptanceCycles, EmitsTheContinuationWhateverIsProposed) {
  EXPECT_TRUE(rc::check([] {
    const auto text = *rc::gen::container<Tokens>(rc::gen::inRange<std::int32_t>(0, 3));
    const auto proposals = *rc::gen::container<std::vector<Tokens>>(
        text.size(), rc::gen::container<Tokens>(rc::gen::inRange<std::int32_t>(0, 3)));
    std::size_t expected_position = 1, passes = 0;
    const Acceptance result = acceptance_cycles(text, [&](std::size_t position) {
      RC_ASSERT(position == expected_position);
      const Tokens& proposal = proposals[passes++];
      std::size_t accepted = 0;
      while (accepted < proposal.size() && position + accepted < text.size() &&
             proposal[accepted] == text[position + accepted])
        ++accepted;
      expected_position = position + accepted + 1;
      return proposal;
    });
    RC_ASSERT(result.passes == passes);
    RC_ASSERT(result.emitted == (text.empty() ? 0 : text.size() - 1));
  }));
}

TEST(Acceptance, SumsCountsAndNotRatios) {
  Acceptance sum{8, 2};
  sum += {1, 1};
  EXPECT_EQ(sum, (Acceptance{9, 3}));
  EXPECT_DOUBLE_EQ(sum.tau(), 3);
}

}  // namespace
}  // namespace headrace
