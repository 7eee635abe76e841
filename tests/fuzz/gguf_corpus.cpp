// Writes the files that the GGUF fuzzer starts from. usage: gguf_corpus FOLDER
#include <cstdio>

#include "gguf_writer.h"

int main(int argc, char** argv) {
  using namespace headrace;
  if (argc != 2) {
    std::fprintf(stderr, "usage: gguf_corpus FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (const GgmlType type : {GgmlType::F32, GgmlType::F16, GgmlType::BF16, GgmlType::Q4_0,
                              GgmlType::Q4_1, GgmlType::Q8_0})
    testing::write_random_llama(
        folder, {.hidden = 32, .layers = 1, .heads = 1, .kv_heads = 1, .ffn = 32, .type = type},
        static_cast<std::uint64_t>(type));

  // Without a model: each kind of metadata, other alignments and versions, a few tokens only.
  testing::GgufWriter writer;
  writer.version = 2;
  writer.alignment = 8;
  constexpr std::size_t scalar_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  for (std::uint32_t type = 0; type <= 12; ++type)
    if (const std::size_t bytes = scalar_bytes[type]; bytes > 0)
      writer.entry("scalar" + std::to_string(type), type, std::string(bytes, '\1'));
  writer.add("strings", std::vector<std::string>{"a", "b"});
  writer.add("numbers", std::vector<std::int32_t>{1, 2, 3});
  writer.tensor("t", {2, 2}, GgmlType::F32, {1, 2, 3, 4});
  testing::write_file(folder / "metadata.gguf", writer.bytes());

  testing::GgufWriter tokens;
  testing::add_tokenizer(
      tokens, {.tokens = {"<|im_end|>", "a", "b", "ab"}, .merges = {"a b"}, .types = {3, 1, 1, 1}},
      "gpt-2");
  testing::write_file(folder / "tokens.gguf", tokens.bytes());
}
