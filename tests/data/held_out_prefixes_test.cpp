#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "data/random_text.h"
#include "headrace/text_source.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

using testing::encode_bytes;
using testing::TemporaryFolder;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kLength = 8;

class HeldOutPrefixes : public ::testing::Test {
 protected:
  // 200 files: long ones, and every third too short to give a prefix. Each starts with its own
  // number.
  void SetUp() override {
    for (int i = 0; i < 200; ++i) {
      const std::string text =
          i % 3 == 0 ? "too short" : std::string(40, static_cast<char>('a' + i % 26));
      folder.write(fmt::format("f{}.txt", i), text + std::to_string(i));
    }
    manifest = scan({folder.path()});
    const std::vector<bool> held = held_out_files(manifest.files);
    for (std::size_t i = 0; i < held.size(); ++i)
      if (held[i]) held_bytes.push_back(folder.read(manifest.files[i].relative));
  }
  // Prefixes that a text gives: at each multiple of the length with as much text again behind it.
  static std::size_t capacity(const std::string& text) {
    return text.size() < 2 * kLength ? 0 : (text.size() - kLength) / kLength;
  }

  TemporaryFolder folder;
  Manifest manifest;
  std::vector<std::string> held_bytes;
};

TEST_F(HeldOutPrefixes, ComeFromHeldOutFilesAndOneOfEachFirst) {
  const auto usable = static_cast<std::size_t>(std::ranges::count_if(
      held_bytes, [](const std::string& text) { return capacity(text) > 0; }));
  ASSERT_GT(usable, 2u);
  const auto prefixes = held_out_prefixes(manifest, encode_bytes, usable, kLength, 1);
  ASSERT_EQ(prefixes.size(), usable);
  std::map<Tokens, int> wanted;  // files are told apart by their letter as far as letters go
  for (const std::string& text : held_bytes)
    if (capacity(text) > 0) ++wanted[encode_bytes(text.substr(0, kLength))];
  for (const Tokens& prefix : prefixes) EXPECT_GT(wanted[prefix]--, 0);
}

TEST_F(HeldOutPrefixes, AreSeveralOfAFileWhereFilesAreFewAndEndWithThem) {
  std::size_t most = 0;
  for (const std::string& text : held_bytes) most += capacity(text);
  EXPECT_EQ(held_out_prefixes(manifest, encode_bytes, most - 1, kLength, 1).size(), most - 1);
  EXPECT_EQ(held_out_prefixes(manifest, encode_bytes, 10 * most, kLength, 1).size(), most);
}

TEST_F(HeldOutPrefixes, AreAFunctionOfTheSeed) {
  const auto prefixes = [&](std::uint64_t seed) {
    return held_out_prefixes(manifest, encode_bytes, 4, kLength, seed);
  };
  EXPECT_EQ(prefixes(1), prefixes(1));
  std::set<std::vector<Tokens>> distinct;
  for (std::uint64_t seed = 0; seed < 20; ++seed) distinct.insert(prefixes(seed));
  EXPECT_GT(distinct.size(), 10u);
}

TEST_F(HeldOutPrefixes, AreNoneWhereNothingIsHeldOut) {
  const Manifest one{{manifest.files[0]}};
  EXPECT_TRUE(held_out_prefixes(one, encode_bytes, 4, kLength, 1).empty());
}

}  // namespace
}  // namespace headrace
