#include "nn/drafter.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "headrace/error.h"
#include "nn/objective.h"
#include "nn/reference_drafter.h"

namespace headrace {
namespace {

using namespace testing;

// Rows shorter than a block, anchors closer than a block, at 0 and at the last token, a row without
// anchors.
DraftBatch awkward_batch(const DrafterConfig& config) {
  return make_batch(config, {17, 3, 9, 1, 12}, {{0, 1, 2, 9, 16}, {1}, {}, {0}, {5, 6, 11}}, 3);
}

void expect_close(const Tensor& a, const Tensor& b, double tolerance, const std::string& what) {
  const double gap = (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
  EXPECT_LE(gap, tolerance) << what;
}

TEST(Drafter, HiddenStatesAndGradientsEqualTheDenseReference) {
  const Model model = random_model(small_config(), 1);
  const DraftBatch batch = awkward_batch(model.config);
  Drafter ours = model.drafter(torch::kFloat64), dense = model.drafter(torch::kFloat64);
  const Tensor hidden = ours.forward(batch);
  ASSERT_TRUE(torch::isfinite(hidden).all().item<bool>());
  for (std::int64_t r = 0; r < 5; ++r) {
    const auto anchors = valid_anchors(batch, r);
    if (anchors.empty()) continue;
    const Tensor expected =
        reference_row(dense, model.embedding,
                      batch.features[r].slice(0, 0, batch.row_lengths[r].item<std::int64_t>()),
                      batch.tokens[r], anchors);
    expect_close(hidden[r].slice(0, 0, expected.size(0)), expected, 1e-12,
                 "row " + std::to_string(r));
  }
  const ObjectiveResult result = objective(hidden, batch, model.head, {.gamma = 4});
  const ReferenceLoss reference = reference_loss(dense, model, batch, 4);
  EXPECT_NEAR(result.numerator.item<double>(), reference.numerator.item<double>(), 1e-10);
  EXPECT_NEAR(result.denominator, reference.denominator, 1e-12);
  result.numerator.backward();
  reference.numerator.backward();
  for (const auto& [name, parameter] : ours.parameters())
    expect_close(parameter.grad(), dense.parameters().at(name).grad(), 1e-10, name);
}

TEST(Drafter, RandomBatchesEqualTheDenseReference) {
  const Model model = random_model(small_config(), 2);
  ASSERT_TRUE(rc::check("mask and position ids", [&] {
    const auto length = *rc::gen::inRange<std::int64_t>(1, 40);
    const auto chosen =
        *rc::gen::container<std::set<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, length));
    const std::vector<std::int64_t> anchors(chosen.begin(), chosen.end());
    const DraftBatch batch =
        make_batch(model.config, {length}, {anchors}, static_cast<std::uint64_t>(length));
    const Drafter drafter = model.drafter(torch::kFloat64);
    torch::NoGradGuard no_grad;
    const ObjectiveResult result =
        objective(drafter.forward(batch), batch, model.head, {.gamma = 3});
    const ReferenceLoss reference = reference_loss(drafter, model, batch, 3);
    RC_ASSERT(std::abs(result.numerator.item<double>() - reference.numerator.item<double>()) <
              1e-9);
    RC_ASSERT(std::abs(result.denominator - reference.denominator) < 1e-12);
  }));
}

// The context of a block ends strictly before its anchor: a change at or after it moves no bit of
// the block.
TEST(Drafter, HiddenStatesFromTheAnchorOnDoNotLeak) {
  const Model model = random_model(small_config(), 4);
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    const Drafter drafter = model.drafter(type);
    torch::NoGradGuard no_grad;
    const std::vector<std::int64_t> anchors{0, 2, 3, 8, 15};
    const DraftBatch batch = with_type(make_batch(model.config, {18}, {anchors}, 5), type);
    const Tensor before = drafter.forward(batch);
    for (std::int64_t position = 0; position < 18; ++position) {
      DraftBatch changed = batch;
      changed.features = batch.features.clone();
      changed.features[0][position] += 1;
      const Tensor after = drafter.forward(changed);
      for (std::size_t b = 0; b < anchors.size(); ++b) {
        const auto at = static_cast<std::int64_t>(b);
        EXPECT_EQ(torch::equal(before[0][at], after[0][at]), position >= anchors[b])
            << "position " << position << ", anchor " << anchors[b];
      }
    }
  }
}

TEST(Drafter, GradientsEqualFiniteDifferences) {
  const Model model = random_model(small_config(), 6);
  const DraftBatch batch = awkward_batch(model.config);
  Drafter drafter = model.drafter(torch::kFloat64);
  const auto loss = [&] {
    return objective(drafter.forward(batch), batch, model.head, {.gamma = 4}).numerator;
  };
  loss().backward();
  torch::manual_seed(7);
  for (const auto& [name, parameter] : drafter.parameters()) {
    torch::NoGradGuard no_grad;
    const Tensor direction = torch::randn_like(parameter);
    const double step = 1e-5;
    parameter.add_(direction, step);
    const double up = loss().item<double>();
    parameter.add_(direction, -2 * step);
    const double down = loss().item<double>();
    parameter.add_(direction, step);
    const double along = (parameter.grad() * direction).sum().item<double>();
    EXPECT_NEAR((up - down) / (2 * step), along, 1e-6 * std::max(1.0, std::abs(along))) << name;
  }
}

TEST(Drafter, NothingToLearnGivesZeroGradients) {
  const Model model = random_model(small_config(), 8);
  // No anchors at all; and anchors whose successor is not there.
  for (const auto& anchors : {std::vector<std::vector<std::int64_t>>{{}, {}}, {{4}, {0}}}) {
    const DraftBatch batch = make_batch(model.config, {5, 1}, anchors, 9);
    Drafter drafter = model.drafter(torch::kFloat64);
    const ObjectiveResult result =
        objective(drafter.forward(batch), batch, model.head, {.gamma = 4});
    EXPECT_EQ(result.numerator.item<double>(), 0);
    EXPECT_EQ(result.denominator, 0);
    result.numerator.backward();
    for (const auto& [name, parameter] : drafter.parameters())
      if (parameter.grad().defined()) {
        EXPECT_EQ(parameter.grad().abs().max().item<double>(), 0) << name;
      }
  }
}

TEST(Drafter, Bfloat16AndFloatAreCloseToDouble) {
  const Model model = random_model(small_config(), 10);
  const DraftBatch batch = awkward_batch(model.config);
  const auto gradients = [&](torch::ScalarType type) {
    Drafter drafter = model.drafter(type);
    const ObjectiveResult result =
        objective(drafter.forward(with_type(batch, type)), batch, model.head, {.gamma = 4});
    result.numerator.backward();
    std::vector<Tensor> flat{result.numerator.detach().to(torch::kFloat64).view({1})};
    for (const auto& [name, parameter] : drafter.parameters())
      flat.push_back(parameter.grad().to(torch::kFloat64).flatten());
    return flat;
  };
  const auto exact = gradients(torch::kFloat64), single = gradients(torch::kFloat32),
             half = gradients(torch::kBFloat16);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double norm = exact[i].norm().item<double>();
    EXPECT_LE((single[i] - exact[i]).norm().item<double>(), 1e-5 * norm) << i;
    EXPECT_LE((half[i] - exact[i]).norm().item<double>(), 0.05 * norm) << i;
  }
}

TEST(Drafter, ThreadsDoNotChangeTheBits) {
  const Model model = random_model(small_config(), 11);
  const DraftBatch batch = with_type(awkward_batch(model.config), torch::kFloat32);
  const int threads = at::get_num_threads();
  std::vector<Tensor> runs[2];
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    Drafter drafter = model.drafter(torch::kFloat32);
    objective(drafter.forward(batch), batch, model.head, {.gamma = 4}).numerator.backward();
    for (const auto& [name, parameter] : drafter.parameters())
      runs[count - 1].push_back(parameter.grad());
  }
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < runs[0].size(); ++i)
    EXPECT_TRUE(torch::equal(runs[0][i], runs[1][i])) << i;
}

TEST(Drafter, LearnsOneBatchByHeart) {
  const Model model = random_model(small_config(), 12);
  const DraftBatch batch =
      with_type(make_batch(model.config, {20, 15}, {{1, 4, 5, 12}, {3, 8}}, 13), torch::kFloat32);
  Drafter drafter = model.drafter(torch::kFloat32);
  std::vector<Tensor> parameters;
  for (const auto& [name, parameter] : drafter.parameters()) parameters.push_back(parameter);
  torch::optim::Adam adam(parameters, torch::optim::AdamOptions(3e-3));
  double loss = 0;
  for (int step = 0; step < 300; ++step) {
    adam.zero_grad();
    const ObjectiveResult result =
        objective(drafter.forward(batch), batch, model.head, {.gamma = 4});
    (result.numerator / result.denominator).backward();
    adam.step();
    loss = result.numerator.item<double>() / result.denominator;
  }
  EXPECT_LT(loss, 0.05);
  const ObjectiveResult result = objective(drafter.forward(batch), batch, model.head, {.gamma = 4});
  EXPECT_EQ(result.accepted, result.counted);
}

// Decoding with a cache filled in pieces proposes what the training pass proposes at the same
// place.
TEST(Drafter, DraftingWithACacheAgreesWithPropose) {
  const Model model = random_model(small_config(), 14);
  const Drafter drafter = model.drafter(torch::kFloat32);
  const DraftBatch batch =
      with_type(make_batch(model.config, {22}, {{0, 3, 7, 8, 20}}, 15), torch::kFloat32);
  const Tensor proposed = drafter.propose(batch);
  ASSERT_EQ(proposed.sizes(), (std::vector<std::int64_t>{1, 5, 3}));
  DraftCache cache = drafter.make_cache(20);
  for (std::int64_t b = 0; b < 5; ++b) {
    const std::int64_t anchor = batch.anchors[0][b].item<std::int64_t>();
    drafter.extend(cache, batch.features[0].slice(0, cache.length, anchor));
    EXPECT_TRUE(torch::equal(drafter.draft(cache, batch.tokens[0][anchor].item<std::int64_t>()),
                             proposed[0][b]))
        << anchor;
  }
  EXPECT_THROW(drafter.extend(cache, batch.features[0].slice(0, 0, 1)), Error);
}

TEST(Drafter, ProposalsAreTheExactArgmaxAlsoInBfloat16) {
  const Model model = random_model(small_config(), 16);
  const Drafter drafter = model.drafter(torch::kBFloat16);
  const DraftBatch batch =
      with_type(make_batch(model.config, {40}, {{0, 5, 9, 17, 23, 31, 36}}, 17), torch::kBFloat16);
  torch::NoGradGuard no_grad;
  const Tensor hidden = drafter.forward(batch).slice(2, 1).to(torch::kFloat64);
  const Tensor logits =
      torch::matmul(hidden, model.head.to(torch::kBFloat16).to(torch::kFloat64).t());
  EXPECT_TRUE(torch::equal(drafter.propose(batch), logits.argmax(-1)));
}

TEST(Drafter, RefusesWhatDoesNotFit) {
  const Model model = random_model(small_config(), 18);
  Parameters missing = model.parameters, wrong = model.parameters;
  missing.erase("fc.weight");
  wrong["norm.weight"] = torch::ones({3});
  EXPECT_THROW(Drafter(model.config, missing, model.embedding, model.head), Error);
  EXPECT_THROW(Drafter(model.config, wrong, model.embedding, model.head), Error);
  const Drafter drafter = model.drafter(torch::kFloat32);
  for (const auto& anchors : {std::vector<std::int64_t>{4, 2}, {6}})
    EXPECT_THROW(
        drafter.forward(with_type(make_batch(model.config, {6}, {anchors}, 1), torch::kFloat32)),
        Error);
}

TEST(Drafter, RandomStartIsKeyedBySeed) {
  const DrafterConfig config = small_config();
  const Parameters a = Drafter::random_parameters(config, 1),
                   b = Drafter::random_parameters(config, 1),
                   c = Drafter::random_parameters(config, 2);
  for (const auto& [name, shape] : parameter_shapes(config)) {
    EXPECT_EQ(a.at(name).sizes(), at::IntArrayRef(shape));
    EXPECT_TRUE(torch::equal(a.at(name), b.at(name)));
    if (shape.size() > 1) {
      EXPECT_FALSE(torch::equal(a.at(name), c.at(name)));
    }
  }
}

TEST(Objective, ExpectedTauIsTheSumOfPrefixProducts) {
  EXPECT_DOUBLE_EQ(expected_tau({0.5, 0.5, 0.2}), 1 + 0.5 + 0.25 + 0.05);
  EXPECT_DOUBLE_EQ(expected_tau({}), 1);
}

}  // namespace
}  // namespace headrace
