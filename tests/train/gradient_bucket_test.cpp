#include "train/gradient_bucket.h"

#include <gtest/gtest.h>

#include "nn/objective.h"
#include "nn/reference_drafter.h"
#include "train/weights_hash.h"

namespace headrace {
namespace {

using namespace testing;

// Rows of a batch, as the batch of a replica.
DraftBatch rows_of(const DraftBatch& batch, std::int64_t first, std::int64_t last) {
  return {batch.features.slice(0, first, last), batch.tokens.slice(0, first, last),
          batch.row_lengths.slice(0, first, last), batch.anchors.slice(0, first, last)};
}

struct Reduced {
  std::vector<float> gradient;
  double denominator = 0;
};

Reduced reduce_over(const Model& model, const DraftBatch& batch,
                    const std::vector<std::int64_t>& borders) {
  Drafter drafter = model.drafter(torch::kFloat64);
  const FlatLayout layout = flat_layout(drafter.parameters());
  std::vector<GradientBucket> buckets(borders.size() - 1, GradientBucket(layout));
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    if (borders[i] == borders[i + 1]) continue;
    const DraftBatch part = rows_of(batch, borders[i], borders[i + 1]);
    const ObjectiveResult result = objective(drafter.forward(part), part, model.head, {.gamma = 4});
    result.numerator.backward();
    buckets[i].collect(drafter.parameters(), result.denominator);
    EXPECT_FALSE(drafter.parameters().at("fc.weight").grad().defined());
  }
  Reduced reduced{std::vector<float>(layout.elements, 7.0f), 0};
  reduced.denominator = reduce(buckets, reduced.gradient);
  return reduced;
}

TEST(GradientBucket, AnySplitOverReplicasEqualsOneBigBatch) {
  const Model model = random_model(small_config(), 1);
  // Row 2 has no anchors: a replica may get nothing to learn from.
  const DraftBatch batch =
      make_batch(model.config, {17, 3, 9, 6, 12}, {{0, 1, 2, 9, 16}, {1}, {}, {0}, {5, 6, 11}}, 3);
  const Reduced whole = reduce_over(model, batch, {0, 5});
  for (const auto& borders :
       std::vector<std::vector<std::int64_t>>{{0, 1, 5}, {0, 2, 3, 5}, {0, 5, 5}, {0, 0, 4, 5}}) {
    const Reduced split = reduce_over(model, batch, borders);
    EXPECT_NEAR(split.denominator, whole.denominator, 1e-12);
    for (std::size_t i = 0; i < whole.gradient.size(); ++i)
      ASSERT_NEAR(split.gradient[i], whole.gradient[i], 1e-6 * (1 + std::abs(whole.gradient[i])))
          << i;
  }
}

TEST(GradientBucket, NothingAnywhereGivesZero) {
  const Model model = random_model(small_config(), 2);
  const FlatLayout layout = flat_layout(model.parameters);
  std::vector<GradientBucket> buckets(2, GradientBucket(layout));
  std::vector<float> out(layout.elements, 3);
  EXPECT_EQ(reduce(buckets, out), 0);
  EXPECT_EQ(out, std::vector<float>(layout.elements, 0));
}

TEST(GradientBucket, AClearedReplicaLeavesNoTraceOfItsLastStep) {
  const FlatLayout layout{{{"w", {2}, 0, 2}}, 2};
  Parameters parameters{{"w", torch::ones({2}).requires_grad_()}};
  std::vector<GradientBucket> buckets(2, GradientBucket(layout));
  for (auto& bucket : buckets) {
    parameters.at("w").mutable_grad() = torch::full({2}, 6.0f);
    bucket.collect(parameters, 2);
  }
  std::vector<float> out(2);
  EXPECT_EQ(reduce(buckets, out), 4);
  EXPECT_EQ(out, (std::vector<float>{3, 3}));
  buckets[0].clear();
  EXPECT_EQ(reduce(buckets, out), 2);
  EXPECT_EQ(out, (std::vector<float>{3, 3}));
}

TEST(FlatLayout, FollowsTheOrderOfNamesAndRoundTrips) {
  const Model model = random_model(small_config(), 3);
  const Parameters single = trainable_copy(model.parameters, torch::kFloat32);
  const FlatLayout layout = flat_layout(single);
  std::size_t next = 0;
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(layout.entries[i - 1].name, layout.entries[i].name);
    }
    EXPECT_EQ(layout.entries[i].offset, next);
    next += layout.entries[i].elements;
  }
  EXPECT_EQ(next, layout.elements);
  std::vector<float> flat(layout.elements);
  flatten(layout, single, flat);
  Parameters other = trainable_copy(random_model(small_config(), 4).parameters, torch::kFloat32);
  unflatten(layout, flat, other);
  for (const auto& [name, tensor] : single)
    EXPECT_TRUE(torch::equal(tensor, other.at(name))) << name;
}

TEST(WeightsHash, KnowsNamesShapesAndBits) {
  const FlatLayout layout{{{"a", {2, 1}, 0, 2}, {"b", {1}, 2, 1}}, 3};
  FlatLayout renamed = layout, reshaped = layout;
  renamed.entries[1].name = "c";
  reshaped.entries[0].shape = {1, 2};
  const std::vector<float> weights{1, 2, 0.0f}, negative_zero{1, 2, -0.0f};
  // printf 'a\nF32 [2, 1]\n\0\0\x80\x3f\0\0\0\x40b\nF32 [1]\n\0\0\0\0' | sha256sum
  EXPECT_EQ(weights_sha256(layout, weights),
            "988b3f8b2427738114b8bcb5a9bbffe8209bdc6a4dff2a73b97f359a67c367c3");
  EXPECT_NE(weights_sha256(renamed, weights), weights_sha256(layout, weights));
  EXPECT_NE(weights_sha256(reshaped, weights), weights_sha256(layout, weights));
  EXPECT_NE(weights_sha256(layout, negative_zero), weights_sha256(layout, weights));
}

}  // namespace
}  // namespace headrace
