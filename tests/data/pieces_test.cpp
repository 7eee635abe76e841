#include "data/pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "data/fingerprint.h"
#include "data/random_text.h"
#include "data/utf8.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using testing::TemporaryFolder;

// UTF-8 by its definition: the encodings of the code points.
std::string encode_code_point(std::uint32_t c) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)),
          byte(0x80 | (c & 63))};
}

TEST(Utf8, EveryCodePointIsValidAndItsEveryPartIsNot) {
  for (std::uint32_t c = 0; c < 0x120000; ++c) {
    const std::string bytes = encode_code_point(c);
    const bool valid = c < 0x110000 && (c < 0xd800 || c > 0xdfff);
    ASSERT_EQ(invalid_utf8_bytes(bytes), valid ? 0 : bytes.size()) << c;
    for (std::size_t cut = 1; valid && cut < bytes.size(); ++cut) {
      ASSERT_EQ(invalid_utf8_bytes(bytes.substr(0, cut)), cut) << c;
      ASSERT_EQ(invalid_utf8_bytes(bytes.substr(cut)), bytes.size() - cut) << c;
      ASSERT_EQ(whole_characters(std::string(1, 'x').append(bytes, 0, cut)), 1u) << c;
    }
    if (valid) {
      ASSERT_EQ(whole_characters(std::string(1, 'x') + bytes), 1 + bytes.size()) << c;
    }
  }
}

TEST(Utf8, OverLongFormsAndStrayBytesCount) {
  for (const char* bytes : {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
                            "\xf5\x80\x80\x80", "\x80", "\xff"})
    EXPECT_EQ(invalid_utf8_bytes(bytes), std::string_view(bytes).size());
  EXPECT_EQ(invalid_utf8_bytes("eight or more, then \xff and \xc3 and \xc3\xa9."), 2u);
}

struct OneFile {
  TemporaryFolder folder;
  Manifest manifest;
  std::vector<Piece> pieces;

  OneFile(const std::string& name, const std::string& bytes) {
    folder.write(name, bytes);
    manifest.files = {{.path = folder / name, .relative = name}};
    fingerprint(InputFile(folder / name), /*verify_full=*/false, manifest.files[0]);
    pieces = cut(manifest);
  }
  std::vector<std::string> documents(PieceCounts& counts) const {
    std::vector<std::string> result;
    VerifiedFiles files(manifest);
    for (const Piece& piece : pieces)
      for_each_document(files, piece, counts,
                        [&](std::string_view document) { result.emplace_back(document); });
    return result;
  }
};

// Random lines of up to 2 MiB. The pieces are the file, in order; each keeps to its size, ends at a
// line end where its first 64 KiB (for one long line: 1 MiB) have any, and between characters
// otherwise.
TEST(Pieces, AreTheFileCutAtLineEnds) {
  EXPECT_TRUE(rc::check([] {
    std::string bytes;
    const auto lines = *rc::gen::container<std::vector<std::pair<unsigned, unsigned>>>(
        rc::gen::pair(rc::gen::inRange(0u, 22u), rc::gen::inRange(0u, 4u)));
    for (const auto& [log2_length, kind] : lines) {
      const std::string unit =
          std::vector<std::string>{"a", "\xc3\xa9", "\xe2\x82\xac", "\xff"}[kind];
      for (std::size_t n = 0; n < (std::size_t{1} << log2_length); n += unit.size()) bytes += unit;
      if (*rc::gen::inRange(0, 4) != 0) bytes += '\n';
      if (bytes.size() > 4 << 20) break;
    }
    const OneFile file("a.txt", bytes);
    std::uint64_t offset = 0;
    for (const Piece& piece : file.pieces) {
      RC_ASSERT(piece.offset == offset);
      const std::string_view rest = std::string_view(bytes).substr(offset);
      const std::string_view text = rest.substr(0, piece.length);
      offset += piece.length;
      RC_ASSERT(offset <= bytes.size() && piece.length > 0);
      if (offset == bytes.size()) {
        RC_ASSERT(piece.length <= kLongestPiece);
      } else if (rest.substr(0, kPieceBytes).find('\n') != std::string_view::npos) {
        RC_ASSERT(piece.length == rest.substr(0, kPieceBytes).rfind('\n') + 1);
      } else if (rest.substr(0, kLongestPiece).find('\n') != std::string_view::npos) {
        RC_ASSERT(piece.length == rest.find('\n') + 1);
      } else {
        RC_ASSERT(piece.length > kLongestPiece - 4 && piece.length <= kLongestPiece);
        RC_ASSERT(invalid_utf8_bytes(text) + invalid_utf8_bytes(rest.substr(piece.length)) ==
                  invalid_utf8_bytes(rest));
      }
    }
    RC_ASSERT(offset == bytes.size());
    PieceCounts counts;
    std::string joined;
    for (const std::string& document : file.documents(counts)) joined += document;
    RC_ASSERT(joined == bytes);
    RC_ASSERT(counts.invalid_utf8_bytes == invalid_utf8_bytes(bytes));
  }));
}

TEST(Documents, OfJsonLinesAreTheirTexts) {
  const OneFile file(
      "a.jsonl",
      "{\"text\": \"one\\n\\u00e9\"}\r\n\n   \n{\"text\": 1}\n{\"title\": \"no text\"}\n"
      "{broken\n[1]\n{\"text\": \"\xff\"}\n{\"text\": \"last\"}");
  PieceCounts counts;
  EXPECT_THAT(file.documents(counts),
              ElementsAre("one\n\xc3\xa9", "{\"text\": 1}", "{\"title\": \"no text\"}", "{broken",
                          "[1]", "{\"text\": \"\xff\"}", "last"));
  EXPECT_EQ(counts.plain_json_lines, 5u);
  EXPECT_EQ(counts.invalid_utf8_bytes, 1u);
}

TEST(Documents, ALongJsonLineStaysWholeUpToOneMiB) {
  const std::string text(900'000, 'x');
  const OneFile file("a.jsonl",
                     "{\"text\": \"short\"}\n{\"text\": \"" + text + "\"}\n{\"text\": \"end\"}\n");
  PieceCounts counts;
  EXPECT_THAT(file.documents(counts), ElementsAre("short", text, "end"));
  EXPECT_EQ(counts.plain_json_lines, 0u);
}

}  // namespace
}  // namespace headrace
