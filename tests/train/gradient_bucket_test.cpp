#include "train/gradient_bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>
#include <thread>

#include "headrace/error.h"
#include "nn/objective.h"
#include "nn/reference_drafter.h"
#include "train/weights_hash.h"

namespace headrace {
namespace {

using namespace testing;
using ::testing::Each;
using ::testing::ElementsAre;

// Rows of a batch, as the batch of a replica.
DraftBatch rows_of(const DraftBatch& batch, std::int64_t first, std::int64_t last) {
  return {batch.features.slice(0, first, last), batch.tokens.slice(0, first, last),
          batch.row_lengths.slice(0, first, last), batch.anchors.slice(0, first, last)};
}

struct Reduced {
  std::vector<float> gradient;
  double denominator = 0;
};

// Replicas of one drafter; a step is any number of calls, each of which may come from a thread of
// its own, and then finish().
struct Replicas {
  const Model& model;
  std::vector<Drafter> drafters;
  GradientBuckets buckets;

  Replicas(const Model& m, std::size_t count, torch::ScalarType type, std::size_t bucket_bytes)
      : model(m), buckets(flat_layout(m.parameters), count, bucket_bytes) {
    drafters.reserve(count);
    for (std::size_t r = 0; r < count; ++r) {
      drafters.push_back(m.drafter(type));
      buckets.attach(r, drafters[r].parameters());
    }
  }
  void backward(std::size_t r, const DraftBatch& part) {
    const ObjectiveResult result =
        objective(drafters[r].forward(part), part, model.head, {.gamma = 4});
    buckets.begin(r, result.denominator);
    result.numerator.backward();
  }
  Reduced finish() {
    const double denominator = buckets.finish();
    return {buckets.gradient(), denominator};
  }
};

// Row 2 has no anchors: a replica may get nothing to learn from.
DraftBatch uneven_batch(const Model& model) {
  return make_batch(model.config, {17, 3, 9, 6, 12, 8},
                    {{0, 1, 2, 9, 16}, {1}, {}, {0}, {5, 6, 11}, {2, 4}}, 3);
}

// Autograd's own gradients of the numerator, flat, without buckets.
Reduced plain(const Model& model, const DraftBatch& batch, torch::ScalarType type) {
  Drafter drafter = model.drafter(type);
  const ObjectiveResult result = objective(drafter.forward(batch), batch, model.head, {.gamma = 4});
  result.numerator.backward();
  const FlatLayout layout = flat_layout(drafter.parameters());
  Reduced reduced{std::vector<float>(layout.elements), result.denominator};
  Parameters gradients;
  for (const auto& [name, tensor] : drafter.parameters()) gradients[name] = tensor.grad();
  flatten(layout, gradients, reduced.gradient);
  return reduced;
}

TEST(GradientBuckets, AnySplitOverReplicasEqualsOneBigBatch) {
  const Model model = random_model(small_config(), 1);
  const DraftBatch batch = uneven_batch(model);
  const std::int64_t rows = batch.tokens.size(0);
  const Reduced whole = plain(model, batch, torch::kFloat64);
  EXPECT_TRUE(rc::check("a split equals the whole", [&] {
    const auto count = *rc::gen::inRange<std::size_t>(1, 5);
    // Borders between the replicas' rows, equal ones for an empty replica.
    auto borders = *rc::gen::container<std::vector<std::int64_t>>(
        count - 1, rc::gen::inRange<std::int64_t>(0, rows + 1));
    borders.insert(borders.end(), {0, rows});
    std::ranges::sort(borders);
    // An empty replica takes part with nothing, or does not take part.
    const auto absent = *rc::gen::arbitrary<bool>();
    const auto bucket_bytes = *rc::gen::elementOf(std::vector<std::size_t>{1, 3000, 1 << 20});
    Replicas replicas(model, count, torch::kFloat64, bucket_bytes);
    for (int step = 0; step < 2; ++step) {  // by the second, the order of backward is known
      for (std::size_t r = 0; r < count; ++r) {
        if (absent && borders[r] == borders[r + 1]) continue;
        replicas.backward(r, rows_of(batch, borders[r], borders[r + 1]));
      }
      const Reduced split = replicas.finish();
      RC_ASSERT(std::abs(split.denominator - whole.denominator) < 1e-12);
      for (std::size_t i = 0; i < whole.gradient.size(); ++i) {
        const double expected = whole.gradient[i] / whole.denominator;
        RC_ASSERT(std::abs(split.gradient[i] - expected) < 1e-6 * (1 + std::abs(expected)));
      }
    }
  }));
}

// In the precisions that training uses, where the order of a sum shows: the bits are those of a sum
// in fp32 over the replicas in their order.
TEST(GradientBuckets, ASplitHasTheSameBitsInEveryOrderOfArrival) {
  const Model model = random_model(small_config(), 1);
  const DraftBatch batch = uneven_batch(model);
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    Replicas replicas(model, 4, type, 3000);
    const std::vector<std::int64_t> borders{0, 1, 2, 4, 6};
    const auto part = [&](std::size_t r) {
      return with_type(rows_of(batch, borders[r], borders[r + 1]), type);
    };
    std::vector<std::size_t> order{0, 1, 2, 3};
    std::vector<float> expected(replicas.buckets.gradient().size());
    double denominator = 0;
    for (const std::size_t r : order) {
      const Reduced alone = plain(model, part(r), type);
      denominator += alone.denominator;
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += alone.gradient[i];
    }
    for (float& value : expected) value *= static_cast<float>(1 / denominator);
    do {
      for (const std::size_t r : order) replicas.backward(r, part(r));
      const Reduced reduced = replicas.finish();
      ASSERT_EQ(reduced.gradient, expected) << ::testing::PrintToString(order);
    } while (std::ranges::next_permutation(order).found);
    for (int round = 0; round < 20; ++round) {
      {
        std::vector<std::jthread> threads;
        for (const std::size_t r : order)
          threads.emplace_back([&, r] { replicas.backward(r, part(r)); });
      }
      ASSERT_EQ(replicas.finish().gradient, expected);
    }
  }
}

TEST(GradientBuckets, AreSummedWhileBackwardGoesOn) {
  const Model model = random_model(small_config(), 1);
  const DraftBatch batch = uneven_batch(model);
  Replicas replicas(model, 2, torch::kFloat32, 3000);
  const FlatLayout layout = flat_layout(model.parameters);
  // The last gradient of a pass is fc's or hidden_norm's, of what stands before all layers.
  std::chrono::steady_clock::time_point last_gradient;
  Parameters& parameters = replicas.drafters[1].parameters();
  for (const char* name : {"fc.weight", "hidden_norm.weight"})
    parameters.at(name).register_hook(
        [&](torch::Tensor) { last_gradient = std::chrono::steady_clock::now(); });
  for (int step = 0; step < 2; ++step) {
    replicas.backward(0, with_type(rows_of(batch, 0, 3), torch::kFloat32));
    EXPECT_TRUE(replicas.buckets.reductions().empty()) << "replica 1 has delivered nothing";
    replicas.backward(1, with_type(rows_of(batch, 3, 6), torch::kFloat32));
    const auto reductions = replicas.buckets.reductions();
    ASSERT_GT(reductions.size(), 3u);
    EXPECT_LT(reductions.front().end, last_gradient);
    if (step == 1) {
      EXPECT_EQ(layout.entries[reductions.front().entries.front()].name, "norm.weight");
    }
    // Every bucket is done when the passes are, and finish() has nothing left to sum.
    std::vector<std::size_t> summed;
    for (const auto& reduction : reductions)
      summed.insert(summed.end(), reduction.entries.begin(), reduction.entries.end());
    EXPECT_EQ(summed.size(), layout.entries.size());
    const std::size_t before = reductions.size();
    replicas.finish();
    EXPECT_EQ(replicas.buckets.reductions().size(), before);
    for (const auto& [name, tensor] : parameters) EXPECT_FALSE(tensor.grad().defined()) << name;
  }
}

// Names are not in the order of layers, nor backward in the reverse order of names: "b" comes first,
// then "c", then "a". After one pass the buckets are filled in the order seen.
TEST(GradientBuckets, AreFilledInTheOrderOfTheBackwardPass) {
  Parameters parameters;
  for (const char* name : {"a", "b", "c"})
    parameters[name] = torch::ones({100}, torch::requires_grad());
  GradientBuckets buckets(flat_layout(parameters), 1, 2 * 100 * sizeof(float));
  buckets.attach(0, parameters);
  const auto pass = [&] {
    buckets.begin(0, 1);
    (((parameters.at("a") * 2).exp() * parameters.at("c")).sin() * parameters.at("b"))
        .sum()
        .backward();
    std::vector<std::vector<std::size_t>> entries;
    for (const auto& reduction : buckets.reductions()) entries.push_back(reduction.entries);
    buckets.finish();
    return entries;
  };
  EXPECT_THAT(pass(), ElementsAre(ElementsAre(2, 1), ElementsAre(0)));
  EXPECT_THAT(pass(), ElementsAre(ElementsAre(1, 2), ElementsAre(0)));
}

TEST(GradientBuckets, HoldNoMoreThanTheirBoundButOneTensor) {
  const Model model = random_model(small_config(), 1);
  const FlatLayout layout = flat_layout(model.parameters);
  for (const std::size_t bytes : {1u, 1000u, 5000u, 1u << 20}) {
    GradientBuckets buckets(layout, 1, bytes);
    buckets.finish();
    std::size_t seen = 0;
    for (const auto& reduction : buckets.reductions()) {
      std::size_t elements = 0;
      for (const std::size_t entry : reduction.entries) elements += layout.entries[entry].elements;
      EXPECT_TRUE(reduction.entries.size() == 1 || elements * sizeof(float) <= bytes);
      seen += elements;
    }
    EXPECT_EQ(seen, layout.elements);
  }
}

TEST(GradientBuckets, NothingAnywhereGivesZero) {
  const Model model = random_model(small_config(), 2);
  const DraftBatch batch = uneven_batch(model);
  Replicas replicas(model, 2, torch::kFloat64, 3000);
  replicas.backward(0, batch);
  EXPECT_GT(replicas.finish().denominator, 0);
  const Reduced nobody = replicas.finish();
  EXPECT_EQ(nobody.denominator, 0);
  EXPECT_THAT(nobody.gradient, Each(0.0f));
  for (std::size_t r = 0; r < 2; ++r) replicas.backward(r, rows_of(batch, 2, 3));  // no anchors
  const Reduced nothing = replicas.finish();
  EXPECT_EQ(nothing.denominator, 0);
  EXPECT_THAT(nothing.gradient, Each(0.0f));
}

TEST(GradientBuckets, ASecondPassReplacesTheFirst) {
  const Model model = random_model(small_config(), 1);
  const DraftBatch batch = uneven_batch(model);
  Replicas replicas(model, 2, torch::kFloat64, 3000);
  const auto both = [&](std::int64_t first) {
    replicas.backward(0, rows_of(batch, first, 3));
    replicas.backward(1, rows_of(batch, 3, 6));
  };
  both(0);
  const Reduced expected = replicas.finish();
  both(1);
  replicas.backward(0, rows_of(batch, 0, 3));
  const Reduced again = replicas.finish();
  EXPECT_EQ(again.denominator, expected.denominator);
  EXPECT_EQ(again.gradient, expected.gradient);
}

TEST(GradientBuckets, AGradientThatNobodyAnnouncedIsRefused) {
  Parameters parameters{{"w", torch::ones({2}, torch::requires_grad())}};
  GradientBuckets buckets(flat_layout(parameters), 1);
  buckets.attach(0, parameters);
  EXPECT_THROW(parameters.at("w").sum().backward(), Error);
}

// Either alone would be summed without the other.
TEST(GradientBuckets, GradientsOfTwoTypesAreRefusedByName) {
  GradientBuckets buckets({{{"layers.0.weight", {2}, 0, 2}}, 2}, 2);
  buckets.begin(0, 1);
  buckets.begin(1, 1);
  buckets.deliver(0, 0, torch::ones({2}, torch::kFloat32));
  try {
    buckets.deliver(1, 0, torch::ones({2}, torch::kBFloat16));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("layers.0.weight"));
  }
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
