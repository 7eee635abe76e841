// Files that are cut off, damaged or written to do harm: each is refused with Error(bad_input), and
// nothing is read outside the file (the asan preset watches).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "headrace/tokenizer.h"
#include "nn/llama_shape.h"
#include "nn_files/model_file.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::open_gguf;
using testing::refusal;

std::string small_model() {
  return testing::random_llama(
      {.hidden = 32, .layers = 1, .heads = 2, .kv_heads = 1, .ffn = 32, .type = GgmlType::Q4_1});
}

// What a program does with a model. Throws Error, or has read every byte of the tensors.
void use(const std::string& bytes) {
  const GgufFile file = open_gguf(bytes);
  for (const GgufTensor& tensor : file.tensors()) {
    std::vector<float> values(tensor.elements());
    GgufFile::dequantize(tensor, values.data());
  }
  llama_shape(file);
  const Tokenizer tokenizer = Tokenizer::from(file);
  tokenizer.decode(tokenizer.encode(" the self<|im_end|>\xff", true));
}

std::string patched(std::string bytes, std::size_t at, const std::string& with) {
  return bytes.replace(at, with.size(), with);
}

TEST(GgufHostile, CutOffAnywhere) {
  const std::string model = small_model();
  use(model);
  for (std::size_t size = 1; size < model.size(); size += size < 300 ? 1 : 7)
    EXPECT_NE(refusal([&] { use(model.substr(0, size)); }), "") << size;
  EXPECT_THAT(refusal([&] { use(model.substr(0, model.size() - 1)); }), HasSubstr("truncated?"));
  EXPECT_THAT(refusal([] { use(""); }), HasSubstr("is empty"));
}

TEST(GgufHostile, FlippedBytes) {
  const std::string model = small_model();
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    // The header and the tensor descriptions are where a byte matters.
    std::string damaged = model;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips)
      damaged[random() % model.size()] ^= static_cast<char>(1 + random() % 255);
    try {
      use(damaged);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::bad_input) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(GgufHostile, Header) {
  const std::string model = small_model();
  const auto with = [&](std::size_t at, auto value) {
    return refusal([&] { use(patched(model, at, GgufWriter::raw(value))); });
  };
  EXPECT_THAT(with(0, std::uint32_t{0x46554748}), HasSubstr("offset 0: not a GGUF file"));
  EXPECT_THAT(with(4, std::uint32_t{1}), HasSubstr("offset 4: GGUF version 1 is not supported"));
  EXPECT_THAT(with(4, std::uint32_t{0x03000000}), HasSubstr("big-endian"));
  EXPECT_THAT(with(8, ~std::uint64_t{0}),
              HasSubstr("offset 8: the number of tensors is 18446744073709551615"));
  EXPECT_THAT(with(8, std::uint64_t{1000}), HasSubstr("offset"));
  EXPECT_THAT(with(16, std::uint64_t{1} << 62),
              HasSubstr("offset 16: the number of metadata entries"));
  EXPECT_THAT(with(24, ~std::uint64_t{0}),
              HasSubstr("offset 32: a metadata key takes 18446744073709551615"));
}

TEST(GgufHostile, Metadata) {
  const auto entry = [](std::uint32_t type, const std::string& body,
                        const std::string& key = "key") {
    GgufWriter writer;
    writer.entry(key, type, body);
    return refusal([&] { open_gguf(writer.bytes() + std::string(64, '\0')); });
  };
  const auto array = [](std::uint32_t type, std::uint64_t n) {
    return GgufWriter::raw(type) + GgufWriter::raw(n);
  };
  EXPECT_THAT(entry(13, std::string(8, '\0')), HasSubstr("type 13, which GGUF does not have"));
  EXPECT_THAT(entry(7, "\x02"), HasSubstr("a boolean is 2"));
  EXPECT_THAT(entry(8, GgufWriter::raw(std::uint64_t{1} << 63)),
              HasSubstr("a metadata string takes"));
  EXPECT_THAT(entry(9, array(9, 1)), HasSubstr("nested arrays"));
  EXPECT_THAT(entry(9, array(99, 1)), HasSubstr("type 99"));
  EXPECT_THAT(entry(9, array(10, std::uint64_t{1} << 61)), HasSubstr("an array's length is"));
  EXPECT_THAT(entry(9, array(10, 1) + GgufWriter::raw(~std::uint64_t{0})),
              HasSubstr("more than 63 bits"));
  EXPECT_THAT(entry(4, GgufWriter::raw(std::uint32_t{1}), std::string(70000, 'k')),
              HasSubstr("key of 70000 bytes"));
  EXPECT_THAT(entry(9, array(0, (1 << 24) + 1) + std::string((1 << 24) + 1, 'x')),
              HasSubstr("at most 16777216"));
  GgufWriter twice;
  twice.add("same\n", true);
  twice.add("same\n", false);
  EXPECT_THAT(refusal([&] { open_gguf(twice.bytes()); }), HasSubstr("same\\x0a stands twice"));
  for (const std::uint64_t alignment :
       {std::uint64_t{0}, std::uint64_t{24}, std::uint64_t{1} << 31}) {
    GgufWriter writer;
    writer.entry("general.alignment", 10, GgufWriter::raw(alignment));
    EXPECT_THAT(refusal([&] { open_gguf(writer.bytes()); }), HasSubstr("general.alignment"));
  }
}

// The description of one tensor, as given.
std::string tensor_refusal(const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                           std::uint64_t offset, std::size_t data = 64) {
  std::string bytes = "GGUF" + GgufWriter::raw(std::uint32_t{3}) +
                      GgufWriter::raw(std::uint64_t{1}) + GgufWriter::raw(std::uint64_t{0}) +
                      GgufWriter::text("weight") +
                      GgufWriter::raw(static_cast<std::uint32_t>(sizes.size()));
  for (const std::uint64_t size : sizes) bytes += GgufWriter::raw(size);
  bytes += GgufWriter::raw(type) + GgufWriter::raw(offset);
  bytes.resize((bytes.size() + 31) / 32 * 32 + data);
  return refusal([&] { open_gguf(bytes); });
}

TEST(GgufHostile, Tensors) {
  constexpr std::uint64_t huge = std::uint64_t{1} << 32;
  EXPECT_THAT(tensor_refusal({}, 0, 0), HasSubstr("0 dimensions"));
  EXPECT_THAT(tensor_refusal({1, 1, 1, 1, 1}, 0, 0), HasSubstr("5 dimensions"));
  EXPECT_THAT(tensor_refusal({4, 0}, 0, 0), HasSubstr("dimension 1 of size 0"));
  EXPECT_THAT(tensor_refusal({huge, huge}, 0, 0), HasSubstr("impossible"));
  EXPECT_THAT(tensor_refusal({~std::uint64_t{0}}, 0, 0), HasSubstr("impossible"));
  EXPECT_THAT(tensor_refusal({31, 2}, 2, 0), HasSubstr("no whole Q4_0 blocks of 32"));
  EXPECT_THAT(tensor_refusal({17}, 0, 0),
              HasSubstr("its 68 bytes at 0 of the data leave the file"));
  EXPECT_THAT(tensor_refusal({1}, 0, 64), HasSubstr("leave the file, whose data has 64"));
  EXPECT_THAT(tensor_refusal({1}, 0, ~std::uint64_t{31}), HasSubstr("leave the file"));
  EXPECT_THAT(tensor_refusal({1}, 0, 8), HasSubstr("not a multiple of the alignment 32"));
  EXPECT_THAT(tensor_refusal({256}, 12, 0),
              AllOf(HasSubstr("tensor weight is of type Q4_K, which is not supported"),
                    HasSubstr("supported are F32, F16, BF16, Q4_0, Q4_1, Q8_0")));
  EXPECT_THAT(tensor_refusal({256}, 1000, 0), HasSubstr("type 1000"));

  GgufWriter twice;
  twice.tensor("a", {4}, GgmlType::F32, {1, 2, 3, 4});
  twice.tensor("a", {4}, GgmlType::F32, {1, 2, 3, 4});
  EXPECT_THAT(refusal([&] { open_gguf(twice.bytes()); }), HasSubstr("the tensor a stands twice"));
  std::string overlap = twice.bytes();
  overlap.replace(overlap.find(GgufWriter::raw(std::uint64_t{32}), 24), 8, std::string(8, '\0'));
  EXPECT_THAT(refusal([&] { open_gguf(overlap); }), HasSubstr("two tensors overlap at 0"));
}

TEST(GgufHostile, NoFile) {
  EXPECT_THAT(refusal([] { GgufFile::open("/nowhere/x.gguf"); }),
              HasSubstr("/nowhere/x.gguf: cannot be opened"));
  EXPECT_THAT(refusal([] { GgufFile::open("/"); }), HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace headrace
