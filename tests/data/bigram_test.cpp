#include "headrace/bigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
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

// Against counts kept plainly.
TEST(BigramTable, NextIsTheMostFrequentSuccessor) {
  EXPECT_TRUE(rc::check([] {
    const auto rows = *rc::gen::container<std::vector<Tokens>>(
        rc::gen::container<Tokens>(rc::gen::inRange<std::int32_t>(0, 5)));
    BigramTable table;
    std::map<std::int32_t, std::map<std::int32_t, int>> counts;
    for (const Tokens& row : rows) {
      table.add(row);
      for (std::size_t i = 1; i < row.size(); ++i) ++counts[row[i - 1]][row[i]];
    }
    for (std::int32_t token = -1; token < 7; ++token) {
      std::int32_t best = -1;
      for (const auto& [next, count] : counts[token])
        if (best < 0 || count > counts[token][best]) best = next;
      RC_ASSERT(table.next(token) == best);
    }
  }));
}

TEST(BigramTable, ChainsUntilATokenHasNoSuccessor) {
  BigramTable table;
  table.add(Tokens{1, 2, 3});
  EXPECT_THAT(table.chain(1, 7), ElementsAre(2, 3));
  EXPECT_THAT(table.chain(1, 1), ElementsAre(2));
  EXPECT_THAT(table.chain(9, 7), IsEmpty());
}

TEST(BigramAcceptance, ByHand) {
  BigramTable table;
  table.add(Tokens{1, 2, 3, 1, 2, 3, 1, 2});  // 1 -> 2 -> 3 -> 1
  // Block 4 proposes 3. After 1: 2 3 1 accepted and 9 emitted; after 9 nothing is proposed: 1;
  // after 1: 2.
  const std::vector<Tokens> texts = {{1, 2, 3, 1, 9, 1, 2}, {2, 3}};
  EXPECT_EQ(bigram_acceptance(table, texts, 4), (Acceptance{6 + 1, 3 + 1}));
  EXPECT_DOUBLE_EQ(bigram_acceptance(table, texts, 4).tau(), 7.0 / 4);
  EXPECT_DOUBLE_EQ(bigram_acceptance(table, texts, 1).tau(), 1.0);
}

}  // namespace
}  // namespace headrace
