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
