#include "nn/llama_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn_files/model_file.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::open_gguf;
using testing::random_llama;
using testing::refusal;

TEST(LlamaShape, OfAModel) {
  const LlamaShape shape = llama_shape(open_gguf(random_llama({.hidden = 96,
                                                               .layers = 3,
                                                               .heads = 6,
                                                               .kv_heads = 2,
                                                               .ffn = 160,
                                                               .context = 77,
                                                               .rope_base = 1e5f})));
  EXPECT_EQ(shape.hidden, 96);
  EXPECT_EQ(shape.layers, 3);
  EXPECT_EQ(shape.heads, 6);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(shape.head_dim, 16);
  EXPECT_EQ(shape.ffn, 160);
  EXPECT_EQ(shape.vocab, 288);
  EXPECT_EQ(shape.context, 77);
  EXPECT_EQ(shape.rope_base, 1e5);
  EXPECT_FLOAT_EQ(static_cast<float>(shape.norm_eps), 1e-5f);
}

// The model with the 4-byte value of `key` replaced.
std::string with(const std::string& key, std::uint32_t value) {
  std::string model = random_llama({.tied = false});
  const std::size_t at = model.find(GgufWriter::text(key));
  EXPECT_NE(at, std::string::npos);
  return model.replace(at + 8 + key.size() + 4, 4, GgufWriter::raw(value));
}

TEST(LlamaShape, RefusesSizesThatDoNotFit) {
  const auto refused = [](const std::string& key, std::uint32_t value) {
    return refusal([&] { llama_shape(open_gguf(with(key, value))); });
  };
  EXPECT_THAT(refused("llama.embedding_length", 0),
              HasSubstr("llama.embedding_length is 0, not 1 to"));
  EXPECT_THAT(refused("llama.embedding_length", 0xffffffff),
              HasSubstr("llama.embedding_length is 4294967295"));
  EXPECT_THAT(refused("llama.embedding_length", 66),
              HasSubstr("width 66 is no multiple of its 4 heads"));
  EXPECT_THAT(refused("llama.embedding_length", 128), HasSubstr("token_embd.weight is [288, 64]"));
  EXPECT_THAT(refused("llama.attention.head_count", 64), HasSubstr("head size 1 is odd"));
  EXPECT_THAT(refused("llama.attention.head_count_kv", 3),
              HasSubstr("4 heads are no multiple of 3 KV heads"));
  EXPECT_THAT(refused("llama.attention.head_count_kv", 4),
              HasSubstr("blk.0.attn_k.weight is [32, 64]"));
  EXPECT_THAT(refused("llama.block_count", 3), HasSubstr("blk.2.attn_norm.weight is missing"));
  EXPECT_THAT(refused("llama.feed_forward_length", 64),
              HasSubstr("blk.0.ffn_gate.weight is [96, 64]"));
  EXPECT_THAT(refused("llama.rope.freq_base", 0), HasSubstr("llama.rope.freq_base is 0"));
  EXPECT_THAT(refused("llama.rope.freq_base", 0x7fc00000),
              HasSubstr("llama.rope.freq_base is nan"));
}

TEST(LlamaShape, NamesAnotherArchitecture) {
  GgufWriter writer;
  writer.add("general.architecture", "qwen3");
  EXPECT_THAT(refusal([&] { llama_shape(open_gguf(writer.bytes())); }),
              HasSubstr("architecture \"qwen3\" is not supported; llama is"));
}

TEST(TapLayers, FollowTheReference) {
  EXPECT_THAT(tap_layers(36, 5), ElementsAre(1, 9, 17, 25, 33));  // Qwen3-8B, as published
  EXPECT_THAT(tap_layers(30, 5), ElementsAre(1, 8, 14, 20, 27));  // 7.5 and 20.5 round to even
  EXPECT_THAT(tap_layers(30, 1), ElementsAre(15));
  EXPECT_THAT(tap_layers(30, 2), ElementsAre(1, 27));
  EXPECT_THROW(tap_layers(30, 0), Error);
  EXPECT_THROW(tap_layers(5, 5), Error);
}

}  // namespace
}  // namespace headrace
