// The start weights against the target that they come from.
#include <gtest/gtest.h>

#include "gguf_writer.h"
#include "headrace/error.h"
#include "nn/drafter.h"
#include "nn/target.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

using testing::RandomLlama;
using testing::TemporaryFolder;
using torch::Tensor;

class DrafterStart : public ::testing::Test {
 protected:
  DrafterStart()
      : file_(
            GgufFile::open(testing::write_random_llama(folder_.path(), RandomLlama{.layers = 8}))),
        config_{.target = llama_shape(file_),
                .layers = 3,
                .block = 4,
                .taps = tap_layers(8, 3),
                .mask_token = 5} {}

  Tensor stored(const std::string& name) const {
    const GgufTensor& tensor = file_.tensor(name);
    Tensor values = torch::empty(
        std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end()), torch::kFloat32);
    GgufFile::dequantize(tensor, values.data_ptr<float>());
    return values;
  }

  TemporaryFolder folder_;
  GgufFile file_;
  DrafterConfig config_;
};

TEST_F(DrafterStart, TakesTheTargetsLastLayers) {
  const Parameters p = Drafter::parameters_from_target(config_, file_);
  ASSERT_EQ(p.size(), parameter_shapes(config_).size());
  EXPECT_TRUE(torch::equal(p.at("layers.1.mlp.down_proj.weight"), stored("blk.6.ffn_down.weight")));
  EXPECT_TRUE(
      torch::equal(p.at("layers.2.self_attn.v_proj.weight"), stored("blk.7.attn_v.weight")));
  EXPECT_TRUE(torch::equal(p.at("norm.weight"), stored("output_norm.weight")));
  // The first layer's outputs are scaled down, its inputs are not.
  EXPECT_TRUE(torch::equal(p.at("layers.0.mlp.up_proj.weight"), stored("blk.5.ffn_up.weight")));
  EXPECT_LT(p.at("layers.0.mlp.down_proj.weight").norm().item<double>(),
            0.1 * stored("blk.5.ffn_down.weight").norm().item<double>());
}

// Rows of q and k are stored in pairs (i, i + half) side by side: the drafter's are in halves.
// Rotating pairs of the stored rows and halves of the drafter's must give the same products of
// queries and keys.
TEST_F(DrafterStart, BringsTheRowsOfQueriesAndKeysIntoHalves) {
  const Parameters p = Drafter::parameters_from_target(config_, file_);
  const std::int64_t half = config_.target.head_dim / 2;
  for (const auto& [ours, theirs, heads] :
       {std::tuple{"layers.2.self_attn.q_proj.weight", "blk.7.attn_q.weight", config_.target.heads},
        std::tuple{"layers.2.self_attn.k_proj.weight", "blk.7.attn_k.weight",
                   config_.target.kv_heads}}) {
    const Tensor mine = p.at(ours), raw = stored(theirs);
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t first = head * 2 * half;
        EXPECT_TRUE(torch::equal(mine[first + i], raw[first + 2 * i]));
        EXPECT_TRUE(torch::equal(mine[first + half + i], raw[first + 2 * i + 1]));
      }
  }
}

TEST_F(DrafterStart, MixesTheLastTwoTaps) {
  const Tensor fc = Drafter::parameters_from_target(config_, file_).at("fc.weight");
  const std::int64_t hidden = config_.target.hidden;
  EXPECT_TRUE(torch::equal(fc.slice(1, 2 * hidden), torch::eye(hidden)));
  EXPECT_EQ(fc.slice(1, 0, hidden).abs().max().item<double>(), 0);
  EXPECT_GT(fc[0][hidden].item<double>(), 0);
}

TEST_F(DrafterStart, RandomStartsDependOnTheirSeed) {
  const Tensor a = Drafter::random_parameters(config_, 1).at("fc.weight"),
               b = Drafter::random_parameters(config_, 1).at("fc.weight");
  EXPECT_TRUE(torch::equal(a, b));
  EXPECT_FALSE(torch::equal(a, Drafter::random_parameters(config_, 2).at("fc.weight")));
}

TEST_F(DrafterStart, MoreLayersThanTheTargetHasAreRefused) {
  config_.layers = 9;
  EXPECT_THROW(Drafter::parameters_from_target(config_, file_), Error);
}

}  // namespace
}  // namespace headrace
