// The target on real models, against what independent implementations computed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "gguf_writer.h"
#include "headrace/error.h"
#include "nn/target.h"
#include "nn/threads.h"

namespace headrace {
namespace {

using std::int64_t;

// tests/golden/smollm2_logprobs.json: transformers in fp32 on the same file (tools/golden).
TEST(TargetModels, log_probabilities_equal_those_of_transformers) {
  std::optional<GgufFile> file;
  try {
    file = GgufFile::open(find_model("SmolLM2-135M-Instruct.Q4_1.gguf"));
  } catch (const Error&) {
    GTEST_SKIP()
        << "no SmolLM2-135M-Instruct.Q4_1.gguf in HEADRACE_MODELS or the virtual environment";
  }
  set_compute_threads(1);
  const Target target = Target::load(*file, Precision::fp32);
  std::ifstream golden(HEADRACE_SOURCE_DIR "/tests/golden/smollm2_logprobs.json");
  const auto texts = nlohmann::json::parse(golden);
  ASSERT_EQ(texts.size(), 3u);
  for (const auto& text : texts) {
    SCOPED_TRACE(text["text"].get<std::string>());
    const auto ids = text["ids"].get<std::vector<int64_t>>();
    KvCache cache = target.make_cache(1, static_cast<int64_t>(ids.size()));
    const auto out = target.forward(torch::tensor(ids, torch::kInt64).unsqueeze(0), cache, {});
    const auto got = target.logits(out.hidden)[0].log_softmax(-1);
    ASSERT_EQ(text["positions"].size(), ids.size() - 1);
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto& want = text["positions"][i];
      const auto* logprobs = got[static_cast<int64_t>(i)].data_ptr<float>();
      EXPECT_NEAR(logprobs[ids[i + 1]], want["next"].get<double>(), 1e-3) << "position " << i;
      ASSERT_EQ(want["top"].size(), 10u);
      for (std::size_t k = 0; k < 10; ++k)
        EXPECT_NEAR(logprobs[want["top"][k].get<int64_t>()], want["top_logprobs"][k].get<double>(),
                    1e-3)
            << "position " << i << ", rank " << k;
    }
  }
}

// llama2.c's format: seven integers, then fp32 tensors, each for all layers.
std::string gguf_of_llama2c(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::int32_t header[7];
  in.read(reinterpret_cast<char*>(header), sizeof(header));
  const auto [dim, ffn, layers, heads, kv_heads, vocab, context] = std::to_array(header);
  testing::GgufWriter writer;
  const auto size = [&](const char* key, std::int32_t value) {
    writer.add(key, static_cast<std::uint32_t>(value));
  };
  writer.add("general.architecture", "llama");
  size("llama.block_count", layers);
  size("llama.context_length", context);
  size("llama.embedding_length", dim);
  size("llama.feed_forward_length", ffn);
  size("llama.attention.head_count", heads);
  size("llama.attention.head_count_kv", kv_heads);
  writer.add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const auto tensor = [&](const std::string& name, std::vector<std::int32_t> shape) {
    std::size_t count = 1;
    for (const std::int32_t n : shape) count *= static_cast<std::size_t>(n);
    std::vector<float> values(count);
    in.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(count * sizeof(float)));
    writer.tensor(name, {shape.begin(), shape.end()}, GgmlType::F32, values);
  };
  const auto each_layer = [&](const std::string& name, const std::vector<std::int32_t>& shape) {
    for (int layer = 0; layer < layers; ++layer)
      tensor("blk." + std::to_string(layer) + "." + name + ".weight", shape);
  };
  const std::int32_t kv = dim / heads * kv_heads;
  tensor("token_embd.weight", {vocab, dim});
  each_layer("attn_norm", {dim});
  each_layer("attn_q", {dim, dim});
  each_layer("attn_k", {kv, dim});
  each_layer("attn_v", {kv, dim});
  each_layer("attn_output", {dim, dim});
  each_layer("ffn_norm", {dim});
  each_layer("ffn_gate", {ffn, dim});
  each_layer("ffn_down", {dim, ffn});
  each_layer("ffn_up", {ffn, dim});
  tensor("output_norm.weight", {dim});
  return writer.bytes();
}

// "Once upon a time, there was a little girl named Lily.", as llama2.c continues it.
TEST(TargetModels, stories260k_tells_its_story) {
  const char* shared = std::getenv("HEADRACE_SHARED");
  const std::string path = (shared ? std::string(shared) : HEADRACE_SOURCE_DIR "/../shared") +
                           "/data/stories260k/stories260K.bin";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const auto written = std::filesystem::temp_directory_path() /
                       ("stories260k-" + std::to_string(::getpid()) + ".gguf");
  const GgufFile file = GgufFile::open(testing::write_file(written, gguf_of_llama2c(path)));
  std::filesystem::remove(written);
  set_compute_threads(1);
  const Target target = Target::load(file, Precision::fp32);
  KvCache cache = target.make_cache(1, 32);
  std::vector<int64_t> next = {1, 403, 407, 261, 378}, got;
  while (got.size() < 11) {
    const auto out = target.forward(torch::tensor(next, torch::kInt64).unsqueeze(0), cache, {});
    got.push_back(target.logits(out.hidden)[0][-1].argmax().item<int64_t>());
    next = {got.back()};
  }
  EXPECT_EQ(got, (std::vector<int64_t>{432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426}));
}

}  // namespace
}  // namespace headrace
