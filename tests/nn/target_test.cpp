// The target on random small llamas, against a reference in double arithmetic.
#include "nn/target.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

#include "gguf_writer.h"
#include "headrace/error.h"
#include "nn/threads.h"
#include "reference_llama.h"

namespace headrace {
namespace {

using std::int64_t;
using testing::RandomLlama;
using testing::ReferenceLlama;
using torch::Tensor;

constexpr int64_t kVocab = 288;

// One thread: the machine may be busy, and small products gain nothing from two.
class TargetTest : public ::testing::Test {
 protected:
  void SetUp() override { set_compute_threads(1); }
};

GgufFile random_model(const RandomLlama& shape, std::uint64_t seed = 1) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("headrace-target-test-" + std::to_string(::getpid()));
  GgufFile file = GgufFile::open(testing::write_random_llama(folder, shape, seed));
  std::filesystem::remove_all(folder);  // the mapping outlives the name
  return file;
}

Tensor to_tensor(const std::vector<testing::Vector>& rows) {
  std::vector<Tensor> all;
  for (const auto& row : rows) all.push_back(torch::tensor(row, torch::kFloat64));
  return torch::stack(all);
}

double distance(const Tensor& a, const Tensor& b) {
  return (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
}

// In units of b's root mean square.
double relative_distance(const Tensor& a, const Tensor& b) {
  const Tensor want = b.to(torch::kFloat64);
  return ((a.to(torch::kFloat64) - want).pow(2).mean().sqrt() / want.pow(2).mean().sqrt())
      .item<double>();
}

std::vector<int64_t> draw_tokens(int64_t count) {
  return *rc::gen::container<std::vector<int64_t>>(static_cast<std::size_t>(count),
                                                   rc::gen::inRange<int64_t>(0, kVocab));
}

Tensor as_row(const std::vector<int64_t>& tokens) {
  return torch::tensor(tokens, torch::kInt64).unsqueeze(0);
}

RandomLlama draw_shape() {
  RandomLlama shape;
  shape.kv_heads = *rc::gen::element(1u, 2u);
  shape.heads = shape.kv_heads * *rc::gen::element(1u, 3u);
  shape.hidden = shape.heads * 32;
  shape.layers = *rc::gen::inRange(1u, 4u);
  shape.ffn = 32 * *rc::gen::inRange(1u, 4u);
  shape.rope_base = *rc::gen::element(10000.0f, 100000.0f);
  shape.tied = *rc::gen::arbitrary<bool>();
  shape.type = *rc::gen::element(GgmlType::F32, GgmlType::BF16, GgmlType::F16, GgmlType::Q8_0,
                                 GgmlType::Q4_0, GgmlType::Q4_1);
  return shape;
}

// Feeds `tokens` to one sequence in pieces of random length; hidden states of all of them.
Tensor feed_in_pieces(const Target& target, const std::vector<int64_t>& tokens, KvCache& cache) {
  std::vector<Tensor> pieces;
  for (std::size_t at = 0; at < tokens.size();) {
    const auto n = *rc::gen::inRange<std::size_t>(1, tokens.size() - at + 1);
    const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    const std::vector<int64_t> piece(from, from + static_cast<std::ptrdiff_t>(n));
    pieces.push_back(target.forward(as_row(piece), cache, {}).hidden[0]);
    at += n;
  }
  return torch::cat(pieces);
}

TEST_F(TargetTest, equals_the_reference) {
  EXPECT_TRUE(rc::check([] {
    const RandomLlama shape = draw_shape();
    const GgufFile file = random_model(shape);
    const Target target = Target::load(file, Precision::fp32);
    const auto tokens = draw_tokens(*rc::gen::inRange(1, 12));
    const auto want = ReferenceLlama(file).run(tokens);

    std::vector<int64_t> taps(target.shape().layers);
    std::iota(taps.begin(), taps.end(), 0);
    if (*rc::gen::arbitrary<bool>()) std::reverse(taps.begin(), taps.end());
    KvCache cache = target.make_cache(1, 32);
    const TargetOutput out = target.forward(as_row(tokens), cache, taps);
    RC_ASSERT(distance(out.hidden[0], to_tensor(want.hidden)) < 1e-4);
    RC_ASSERT(distance(target.logits(out.hidden)[0], to_tensor(want.logits)) < 1e-4);

    std::vector<Tensor> tapped;
    for (const int64_t tap : taps) tapped.push_back(to_tensor(want.layers[tap]));
    RC_ASSERT(distance(out.features[0], torch::cat(tapped, 1)) < 1e-4);
    RC_ASSERT(distance(target.features(as_row(tokens), taps)[0], torch::cat(tapped, 1)) < 1e-4);
  }));
}

TEST_F(TargetTest, bf16_is_close_to_fp32) {
  const GgufFile file = random_model({.hidden = 128, .layers = 4, .ffn = 256});
  const Target exact = Target::load(file, Precision::fp32);
  const Target coarse = Target::load(file, Precision::bf16);
  torch::manual_seed(1);
  const Tensor tokens = torch::randint(kVocab, {3, 70}, torch::kInt64);
  const std::vector<int64_t> taps = {0, 3};
  const Tensor features = coarse.features(tokens, taps);
  EXPECT_EQ(features.scalar_type(), torch::kBFloat16);
  EXPECT_LT(relative_distance(features, exact.features(tokens, taps)), 0.02);
  KvCache cache = coarse.make_cache(3, 70), exact_cache = exact.make_cache(3, 70);
  const TargetOutput got = coarse.forward(tokens, cache, taps);
  const TargetOutput want = exact.forward(tokens, exact_cache, taps);
  EXPECT_EQ(got.hidden.scalar_type(), torch::kFloat32);
  EXPECT_LT(relative_distance(got.features, want.features), 0.02);
  EXPECT_LT(relative_distance(coarse.logits(got.hidden), exact.logits(want.hidden)), 0.03);
}

TEST_F(TargetTest, any_split_of_a_sequence_gives_the_same) {
  const Target target = Target::load(random_model({.layers = 3}), Precision::fp32);
  EXPECT_TRUE(rc::check([&] {
    const auto tokens = draw_tokens(*rc::gen::inRange(1, 40));
    KvCache whole = target.make_cache(1, 40), pieces = target.make_cache(1, 40);
    const Tensor want = target.forward(as_row(tokens), whole, {}).hidden[0];
    RC_ASSERT(distance(feed_in_pieces(target, tokens, pieces), want) < 1e-5);
    RC_ASSERT(pieces.lengths == whole.lengths);
  }));
}

TEST_F(TargetTest, a_cropped_cache_goes_on_from_there) {
  const Target target = Target::load(random_model({.layers = 3}), Precision::fp32);
  EXPECT_TRUE(rc::check([&] {
    const auto start = draw_tokens(*rc::gen::inRange(1, 20));
    const auto wrong = draw_tokens(*rc::gen::inRange(1, 10));
    const auto right = draw_tokens(*rc::gen::inRange(1, 10));
    const auto kept = *rc::gen::inRange<std::size_t>(0, start.size() + 1);
    KvCache cache = target.make_cache(1, 40);
    feed_in_pieces(target, start, cache);
    feed_in_pieces(target, wrong, cache);
    cache.crop(0, static_cast<int64_t>(kept));
    std::vector<int64_t> straight(start.begin(), start.begin() + static_cast<std::ptrdiff_t>(kept));
    straight.insert(straight.end(), right.begin(), right.end());
    KvCache fresh = target.make_cache(1, 40);
    const Tensor want = target.forward(as_row(straight), fresh, {}).hidden[0];
    const Tensor got = feed_in_pieces(target, right, cache);
    RC_ASSERT(distance(got, want.narrow(0, static_cast<int64_t>(kept), got.size(0))) < 1e-5);
  }));
}

// Sequences of one batch grow by different counts; each equals itself alone, whatever the padding.
TEST_F(TargetTest, ragged_batches_equal_sequences_alone) {
  const Target target = Target::load(random_model({.layers = 2}), Precision::fp32);
  EXPECT_TRUE(rc::check([&] {
    const auto batch = *rc::gen::inRange<int64_t>(1, 5);
    constexpr int64_t capacity = 24;
    KvCache cache = target.make_cache(batch, capacity);
    std::vector<KvCache> alone;
    for (int64_t b = 0; b < batch; ++b) alone.push_back(target.make_cache(1, capacity));
    for (int step = 0; step < 4; ++step) {
      const auto n = *rc::gen::inRange<int64_t>(1, 7);
      const Tensor tokens = torch::tensor(draw_tokens(batch * n), torch::kInt64).view({batch, n});
      std::vector<int64_t> counts;
      for (int64_t b = 0; b < batch; ++b) counts.push_back(*rc::gen::inRange<int64_t>(0, n + 1));
      const TargetOutput out = target.forward(tokens, cache, {1}, counts);
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t count = counts[static_cast<std::size_t>(b)];
        if (count == 0) continue;
        const auto want = target.forward(tokens[b].narrow(0, 0, count).unsqueeze(0),
                                         alone[static_cast<std::size_t>(b)], {1});
        RC_ASSERT(distance(out.hidden[b].narrow(0, 0, count), want.hidden[0]) < 1e-5);
        RC_ASSERT(distance(out.features[b].narrow(0, 0, count), want.features[0]) < 1e-5);
        RC_ASSERT(cache.lengths[static_cast<std::size_t>(b)] ==
                  alone[static_cast<std::size_t>(b)].lengths[0]);
      }
    }
  }));
}

// What stands after a row's end or in another row moves no bit of it.
TEST_F(TargetTest, padding_and_other_rows_have_no_influence) {
  const GgufFile file = random_model({.hidden = 128, .layers = 2});
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const Target target = Target::load(file, precision);
    torch::manual_seed(2);
    Tensor tokens = torch::randint(kVocab, {3, 50}, torch::kInt64);
    const Tensor before = target.features(tokens, {0, 1});
    tokens[1].narrow(0, 20, 30).copy_(torch::randint(kVocab, {30}, torch::kInt64));
    tokens[2].copy_(torch::randint(kVocab, {50}, torch::kInt64));
    const Tensor after = target.features(tokens, {0, 1});
    EXPECT_TRUE(torch::equal(before[0], after[0]));
    EXPECT_TRUE(torch::equal(before[1].narrow(0, 0, 20), after[1].narrow(0, 0, 20)));
    EXPECT_FALSE(torch::equal(before[1], after[1]));
  }
}

TEST_F(TargetTest, two_workers_get_the_bits_of_one) {
  const Target target =
      Target::load(random_model({.hidden = 128, .layers = 3}), native_precision());
  torch::manual_seed(3);
  const Tensor tokens = torch::randint(kVocab, {4, 64}, torch::kInt64);
  std::vector<Tensor> got(3);
  const auto work = [&](std::size_t i) {
    set_compute_threads(1);
    for (int repeat = 0; repeat < 5; ++repeat) {
      const Tensor features = target.features(tokens, {2});
      EXPECT_TRUE(repeat == 0 || torch::equal(features, got[i]));
      got[i] = features;
    }
  };
  std::thread(work, 0).join();
  std::thread one(work, 1), two(work, 2);
  one.join();
  two.join();
  EXPECT_TRUE(torch::equal(got[0], got[1]));
  EXPECT_TRUE(torch::equal(got[0], got[2]));
}

TEST_F(TargetTest, features_need_no_layer_above_the_last_tap_and_can_be_stopped) {
  const Target target = Target::load(random_model({.layers = 4}), Precision::fp32);
  const Tensor tokens = torch::zeros({1, 5}, torch::kInt64);
  int asked = 0;
  EXPECT_TRUE(target.features(tokens, {0, 2}, [&] { return ++asked, false; }).defined());
  EXPECT_EQ(asked, 3);
  asked = 0;
  EXPECT_FALSE(target.features(tokens, {0, 2}, [&] { return ++asked == 2; }).defined());
  EXPECT_EQ(asked, 2);
}

TEST_F(TargetTest, load_reports_progress_up_to_one_and_shares_tied_storage) {
  std::vector<double> told;
  const auto note = [&](double share) { told.push_back(share); };
  const Target tied = Target::load(random_model({.tied = true}), Precision::bf16, note);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_GT(told.size(), 10u);
  EXPECT_DOUBLE_EQ(told.back(), 1);
  EXPECT_EQ(tied.head().data_ptr(), tied.embedding().data_ptr());
  const Target own = Target::load(random_model({.tied = false}), Precision::bf16);
  EXPECT_NE(own.head().data_ptr(), own.embedding().data_ptr());
}

TEST_F(TargetTest, refuses_what_does_not_fit) {
  const Target target = Target::load(random_model({.context = 16}), Precision::fp32);
  EXPECT_THROW(target.make_cache(1, 17), Error);
  KvCache cache = target.make_cache(2, 16);
  EXPECT_THROW(target.forward(torch::zeros({2, 17}, torch::kInt64), cache, {}), Error);
  EXPECT_THROW(target.forward(torch::full({2, 1}, kVocab, torch::kInt64), cache, {}), Error);
  EXPECT_EQ(cache.lengths, (std::vector<int64_t>{0, 0}));
  EXPECT_THROW(target.features(torch::zeros({1, 17}, torch::kInt64), {0}), Error);
  EXPECT_THROW(target.features(torch::zeros({1, 4}, torch::kInt64), {2}), Error);
  EXPECT_THROW(target.features(torch::zeros({1, 4}, torch::kInt64), {}), Error);
  EXPECT_THROW(target.forward(torch::zeros({2, 1}, torch::kInt64), cache, {-1}), Error);
}

}  // namespace
}  // namespace headrace
