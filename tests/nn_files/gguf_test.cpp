#include "headrace/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "nn_files/model_file.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::open_gguf;
using testing::refusal;
using testing::TemporaryFolder;

constexpr GgmlType kTypes[] = {GgmlType::F32,  GgmlType::F16,  GgmlType::BF16,
                               GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q8_0};

std::vector<float> values_of(const GgufTensor& tensor) {
  std::vector<float> values(tensor.elements());
  GgufFile::dequantize(tensor, values.data());
  return values;
}

TEST(Gguf, MetadataComeBack) {
  GgufWriter writer;
  writer.add("text", "hällo");
  writer.add("count", std::uint32_t{7});
  writer.add("share", 0.5f);
  writer.add("on", true);
  writer.add("words", std::vector<std::string>{"a", "", "b c"});
  writer.add("numbers", std::vector<std::int32_t>{-1, 2});
  writer.entry("minus", 5, GgufWriter::raw(std::int32_t{-3}));
  writer.entry("large", 10, GgufWriter::raw(~std::uint64_t{0}));
  for (const std::uint32_t version : {2u, 3u}) {
    writer.version = version;
    const GgufFile file = open_gguf(writer.bytes());
    EXPECT_EQ(file.text("text"), "hällo");
    EXPECT_EQ(file.integer("count"), 7u);
    EXPECT_EQ(file.integer("large"), ~std::uint64_t{0});
    EXPECT_EQ(file.real("share"), 0.5);
    EXPECT_EQ(std::get<bool>(file.metadata().at("on")), true);
    EXPECT_THAT(file.texts("words"), ElementsAre("a", "", "b c"));
    EXPECT_THAT(std::get<std::vector<std::int64_t>>(file.metadata().at("numbers")),
                ElementsAre(-1, 2));
    EXPECT_FALSE(file.has("other"));
    EXPECT_THAT(refusal([&] { file.text("other"); }),
                HasSubstr("model.gguf: the metadata key other is missing"));
    EXPECT_THAT(refusal([&] { file.text("count"); }), HasSubstr("count is not a string"));
    EXPECT_THAT(refusal([&] { file.integer("minus"); }),
                HasSubstr("not an integer of zero or more"));
    EXPECT_THAT(refusal([&] { file.real("count"); }), HasSubstr("not a floating-point number"));
  }
}

TEST(Gguf, TensorsComeBackWithinTheStepOfTheirType) {
  EXPECT_TRUE(rc::check([] {
    GgufWriter writer;
    writer.alignment = std::uint64_t{1} << *rc::gen::inRange(0, 9);
    std::vector<std::vector<float>> stored;
    for (const GgmlType type : kTypes) {
      const auto rows = *rc::gen::inRange<std::uint64_t>(1, 4);
      stored.push_back(*rc::gen::container<std::vector<float>>(
          rows * 64,
          rc::gen::map(rc::gen::inRange(-1000, 1001), [](int v) { return float(v) / 256; })));
      writer.tensor("t" + std::to_string(static_cast<int>(type)), {rows, 64}, type, stored.back());
    }
    const GgufFile file = open_gguf(writer.bytes());
    for (std::size_t t = 0; t < stored.size(); ++t) {
      const GgufTensor& tensor = file.tensors()[t];
      RC_ASSERT(tensor.type == kTypes[t]);
      const auto read = values_of(tensor);
      RC_ASSERT(read.size() == stored[t].size());
      const bool four_bits = tensor.type == GgmlType::Q4_0 || tensor.type == GgmlType::Q4_1;
      const float tolerance = tensor.type == GgmlType::F32 ? 0 : four_bits ? 0.4f : 0.04f;
      for (std::size_t i = 0; i < read.size(); ++i)
        RC_ASSERT(std::abs(read[i] - stored[t][i]) <= tolerance);
      // Rows are the same values.
      for (std::uint64_t row = 0; row < tensor.shape[0]; ++row) {
        std::vector<float> one(64);
        GgufFile::dequantize_rows(tensor, row, 1, one.data());
        RC_ASSERT(std::equal(one.begin(), one.end(), read.begin() + row * 64));
      }
    }
  }));
}

TEST(Gguf, BlocksByHand) {
  GgufWriter writer;
  const std::string half("\x00\x38", 2), two("\x00\x40", 2);  // 0.5 and 2
  const std::string nibbles(16, '\x8f');                      // low 15, high 8
  writer.tensor_raw("q4_0", {1, 32}, 2, half + nibbles);
  writer.tensor_raw("q4_1", {1, 32}, 3, half + two + nibbles);
  writer.tensor_raw("q8_0", {1, 32}, 8, half + std::string(32, '\x80'));
  const GgufFile file = open_gguf(writer.bytes());
  EXPECT_EQ(values_of(file.tensor("q4_0"))[0], 3.5f);
  EXPECT_EQ(values_of(file.tensor("q4_0"))[16], 0.0f);
  EXPECT_EQ(values_of(file.tensor("q4_1"))[15], 9.5f);
  EXPECT_EQ(values_of(file.tensor("q4_1"))[31], 6.0f);
  EXPECT_EQ(values_of(file.tensor("q8_0"))[31], -64.0f);
}

// Against arithmetic on the parts of each of the 65,536 halves.
TEST(Gguf, EveryHalf) {
  std::string data;
  for (int h = 0; h < 65536; ++h) data += GgufWriter::raw(static_cast<std::uint16_t>(h));
  GgufWriter writer;
  writer.tensor_raw("halves", {65536}, 1, data);
  const GgufFile file = open_gguf(writer.bytes());
  const auto values = values_of(file.tensor("halves"));
  for (int h = 0; h < 65536; ++h) {
    const int exponent = (h >> 10) & 31, mantissa = h & 1023;
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(values[h])) << h;
      continue;
    }
    const double expected = exponent == 31  ? sign * INFINITY
                            : exponent == 0 ? sign * std::ldexp(mantissa, -24)
                                            : sign * std::ldexp(1024 + mantissa, exponent - 25);
    EXPECT_EQ(values[h], expected) << h;
    EXPECT_EQ(std::signbit(values[h]), std::signbit(expected)) << h;
  }
}

TEST(Gguf, ShapesAreOutermostFirst) {
  GgufWriter writer;
  std::vector<float> values(2 * 3 * 4);
  std::iota(values.begin(), values.end(), 0.0f);
  writer.tensor("t", {2, 3, 4}, GgmlType::F32, values);
  const GgufFile file = open_gguf(writer.bytes());
  EXPECT_THAT(file.tensor("t").shape, ElementsAre(2, 3, 4));
  EXPECT_EQ(file.tensor("t").bytes, 96u);
  EXPECT_EQ(values_of(file.tensor("t")), values);
  EXPECT_THAT(refusal([&] { file.tensor("u"); }), HasSubstr("the tensor u is missing"));
  EXPECT_THROW(GgufFile::dequantize_rows(file.tensor("t"), 0, 1, values.data()), Error);
}

TEST(FindModel, LooksWhereTheSetUpPutsModels) {
  const TemporaryFolder folder;
  const std::filesystem::path package = folder / "venv/lib/python3.11/site-packages/some_model";
  std::filesystem::create_directories(package);
  testing::write_file(package / "in-venv.gguf", "x");
  testing::write_file(folder / "in-folder.gguf", "x");
  const auto environment = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  environment("HEADRACE_MODELS", "/nowhere::" + folder.path());
  environment("HEADRACE_VENV", folder / "venv");
  EXPECT_EQ(find_model("in-venv.gguf"), (package / "in-venv.gguf").string());
  EXPECT_EQ(find_model("in-folder.gguf"), folder / "in-folder.gguf");
  EXPECT_EQ(find_model(folder / "in-folder.gguf"), folder / "in-folder.gguf");
  const std::string message = refusal([] { find_model("none.gguf"); });
  EXPECT_THAT(message, HasSubstr("\"none.gguf\""));
  EXPECT_THAT(message, HasSubstr("/nowhere/none.gguf"));
  EXPECT_THAT(message, HasSubstr(folder / "venv"));
  EXPECT_THAT(refusal([] { find_model("../none.gguf"); }), HasSubstr("looked at: ../none.gguf."));
  EXPECT_THAT(refusal([] { find_model(""); }), HasSubstr("no model \"\""));
  ::unsetenv("HEADRACE_MODELS");
  ::unsetenv("HEADRACE_VENV");
}

}  // namespace
}  // namespace headrace
