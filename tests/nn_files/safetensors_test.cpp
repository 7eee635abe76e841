#include "headrace/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <deque>

#include "nn_files/model_file.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::refusal;
using testing::TemporaryFolder;
using testing::write_file;

const std::vector<std::pair<std::string, std::uint64_t>> kTypes = {
    {"F32", 4}, {"BF16", 2}, {"F16", 2}, {"I64", 8}, {"U8", 1}};

SafeTensor tensor(const std::string& name, const std::string& dtype,
                  const std::vector<std::int64_t>& shape, const std::string& bytes) {
  return {name, dtype, shape, reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

TEST(SafeTensors, WhatIsWrittenComesBack) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check([&] {
    std::deque<std::string> data;
    std::vector<SafeTensor> tensors;
    const auto names = *rc::gen::unique<std::vector<std::string>>(rc::gen::nonEmpty(
        rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab.\"\\\n")))));
    for (const std::string& name : names) {
      const auto& [dtype, size] = *rc::gen::elementOf(kTypes);
      const auto shape =
          *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 4));
      std::uint64_t bytes = size;
      for (const std::int64_t n : shape) bytes *= static_cast<std::uint64_t>(n);
      if (bytes > 4096) continue;
      data.push_back(*rc::gen::container<std::string>(bytes, rc::gen::arbitrary<char>()));
      tensors.push_back(tensor(name, dtype, shape, data.back()));
    }
    const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"a\"b", "é"}};
    const std::string path = folder / "t.safetensors";
    write_safetensors(path, tensors, metadata);
    const auto file = SafeTensorsFile::open(path);
    RC_ASSERT(file.metadata() == metadata);
    RC_ASSERT(file.tensors().size() == tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const SafeTensor& read = file.tensor(tensors[i].name);
      RC_ASSERT(read.dtype == tensors[i].dtype);
      RC_ASSERT(read.shape == tensors[i].shape);
      RC_ASSERT(std::string(reinterpret_cast<const char*>(read.data), read.bytes) == data[i]);
    }
  }));
}

TEST(SafeTensors, TheOrderOfTheTensorsDoesNotChangeTheFile) {
  const TemporaryFolder folder;
  const std::string one = "1234", two = "xy";
  const auto a = tensor("a", "F32", {1}, one), b = tensor("b", "U8", {2}, two);
  write_safetensors(folder / "ab", {a, b});
  write_safetensors(folder / "ba", {b, a});
  EXPECT_EQ(folder.read("ab"), folder.read("ba"));
  EXPECT_EQ(folder.read("ab").size() % 8, 6u);  // the header is padded to 8, 6 bytes follow
}

std::string opening(const std::string& header, const std::string& data = "") {
  const TemporaryFolder folder;
  const std::string bytes = GgufWriter::raw(std::uint64_t{header.size()}) + header + data;
  return refusal([&] { SafeTensorsFile::open(write_file(folder / "x.safetensors", bytes)); });
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

TEST(SafeTensors, RefusesWhatDoesNotHold) {
  EXPECT_THAT(opening("{"), HasSubstr("not a JSON object"));
  EXPECT_THAT(opening("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(opening(R"({"w":1})"), HasSubstr("tensor w: it has no dtype"));
  EXPECT_THAT(opening(entry("F8_E4M3", "[1]", "[0,1]"), "x"),
              HasSubstr("dtype F8_E4M3 is not supported"));
  EXPECT_THAT(opening(entry("U8", "[-1]", "[0,1]"), "x"), HasSubstr("other than sizes"));
  EXPECT_THAT(opening(entry("U8", "3", "[0,1]"), "x"), HasSubstr("shape is not a list"));
  EXPECT_THAT(opening(entry("U8", "[1.5]", "[0,1]"), "x"), HasSubstr("other than sizes"));
  EXPECT_THAT(opening(entry("U8", "[2]", "[0,2]"), "x"), HasSubstr("do not lie in the 1 bytes"));
  EXPECT_THAT(opening(entry("U8", "[1]", "[1,0]"), "x"), HasSubstr("do not lie"));
  EXPECT_THAT(opening(entry("U8", "[1]", "[0]"), "x"), HasSubstr("do not lie"));
  EXPECT_THAT(opening(entry("U8", "[18446744073709551615]", "[0,1]"), "x"),
              HasSubstr("other than sizes"));
  EXPECT_THAT(opening(entry("I64", "[4611686018427387904,4]", "[0,0]")),
              HasSubstr("does not take the 0 bytes"));
  EXPECT_THAT(opening(entry("F32", "[1]", "[0,3]"), "xyz"), HasSubstr("does not take the 3 bytes"));
  EXPECT_THAT(opening(entry("U8", "[1]", "[1,2]"), "xy"), HasSubstr("a hole or an overlap at 0"));
  EXPECT_THAT(opening(entry("U8", "[1]", "[0,1]"), "xy"),
              HasSubstr("1 bytes of data belong to no tensor"));
  EXPECT_THAT(opening(R"({"__metadata__":{"a":1}})"), HasSubstr("__metadata__ a is not a string"));

  const TemporaryFolder folder;
  const std::string long_header =
      write_file(folder / "x", GgufWriter::raw(~std::uint64_t{0}) + "{}");
  EXPECT_THAT(refusal([&] { SafeTensorsFile::open(long_header); }),
              HasSubstr("header's length is 18446744073709551615"));
  write_safetensors(folder / "good", {});
  EXPECT_THAT(refusal([&] { SafeTensorsFile::open(folder / "good").tensor("w"); }),
              HasSubstr("tensor w is missing"));
}

TEST(SafeTensors, AFullDiskIsNoticed) {
  try {
    write_safetensors("/dev/full", {});
    FAIL() << "a full disk went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr("/dev/full: cannot be written"));
  }
}

TEST(SafeTensors, CutOffAnywhere) {
  const TemporaryFolder folder;
  const std::string data(40, 'x');
  write_safetensors(folder / "t", {tensor("w", "F32", {5, 2}, data)}, {{"k", "v"}});
  const std::string whole = folder.read("t");
  for (std::size_t size = 0; size < whole.size(); ++size)
    refusal([&] { SafeTensorsFile::open(write_file(folder / "cut", whole.substr(0, size))); });
}

}  // namespace
}  // namespace headrace
