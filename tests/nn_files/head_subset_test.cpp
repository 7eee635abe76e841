#include "nn/files/head_subset.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "headrace/error.h"

namespace headrace {
namespace {

CounterRng rng(std::uint64_t counter) {
  return CounterRng(7, Draw::head_tail, {counter});
}

TEST(HeadSubset, HoldsWhatItMustOnceAndDrawsFromTheOthers) {
  ASSERT_TRUE(rc::check("head_subset", [] {
    const auto vocab = *rc::gen::inRange<std::int64_t>(1, 1500);
    const auto frequent =
        *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, vocab));
    const auto batch = *rc::gen::container<std::vector<std::int32_t>>(
        rc::gen::inRange<std::int32_t>(0, static_cast<std::int32_t>(vocab)));
    const auto drawn = *rc::gen::inRange<std::int64_t>(0, 320);
    const HeadSubset subset = head_subset(vocab, frequent, batch, drawn, rng(1));
    std::set<std::int64_t> plain(frequent.begin(), frequent.end());
    plain.insert(batch.begin(), batch.end());
    const std::set<std::int64_t> ids(subset.ids.begin(), subset.ids.end());
    RC_ASSERT(ids.size() == subset.ids.size());
    if (!ids.empty()) RC_ASSERT(*ids.begin() >= 0);
    if (!ids.empty()) RC_ASSERT(*ids.rbegin() < vocab);
    const auto others = vocab - static_cast<std::int64_t>(plain.size());
    RC_ASSERT(subset.tail.size <= others);
    const bool all = subset.tail.size == others;
    if (drawn == 0 && !all) RC_ASSERT(subset.tail.size == 0);
    if (drawn > 0 && !all) RC_ASSERT(subset.tail.size >= drawn);
    if (drawn > 0 && !all) RC_ASSERT(subset.ids.size() % 256 == 0);
    RC_ASSERT(std::equal(plain.begin(), plain.end(), subset.ids.begin(),
                         subset.ids.end() - subset.tail.size));
    for (const std::int64_t token : plain)
      RC_ASSERT(subset.ids[static_cast<std::size_t>(subset.index_of(token))] == token);
    if (subset.tail.size > 0)
      RC_ASSERT(std::abs(std::exp(subset.tail.bias) * static_cast<double>(subset.tail.size) -
                         static_cast<double>(others)) < 1e-6 * static_cast<double>(vocab));
  }));
}

TEST(HeadSubset, IsAFunctionOfItsKey) {
  const std::vector<std::int64_t> frequent{1, 2, 3};
  EXPECT_EQ(head_subset(1000, frequent, {}, 50, rng(4)).ids,
            head_subset(1000, frequent, {}, 50, rng(4)).ids);
  EXPECT_NE(head_subset(1000, frequent, {}, 50, rng(4)).ids,
            head_subset(1000, frequent, {}, 50, rng(5)).ids);
}

TEST(HeadSubset, ATokenOutsideIsAnError) {
  const HeadSubset subset = head_subset(10, std::vector<std::int64_t>{2}, {}, 0, rng(1));
  EXPECT_THROW(subset.index_of(3), Error);
}

}  // namespace
}  // namespace headrace
