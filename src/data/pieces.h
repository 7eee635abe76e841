// Files cut into pieces, and pieces into documents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/verified_files.h"
#include "headrace/manifest.h"

namespace headrace {

inline constexpr std::uint64_t kPieceBytes = 64 << 10;   // as many whole lines as fit
inline constexpr std::uint64_t kLongestPiece = 1 << 20;  // of a single line; longer ones are cut

struct Piece {
  std::uint32_t file = 0;  // index in the manifest
  std::uint32_t length = 0;
  std::uint64_t offset = 0;
};

// The pieces of all files, in order; together they are every byte once. Only files above 64 KiB are
// read, and of these the surroundings of the cuts.
std::vector<Piece> cut(const Manifest& manifest);

// What pieces held that a user should hear of.
struct PieceCounts {
  std::uint64_t invalid_utf8_bytes = 0, plain_json_lines = 0;
};

// Reads a piece and calls `use` for each document in it. In a .jsonl file a document is the "text"
// of a line, or the line itself where it is no JSON object with such a string (blank lines are
// none); in any other file it is the piece. Errors as those of VerifiedFiles::read.
void for_each_document(VerifiedFiles& files, const Piece& piece, PieceCounts& counts,
                       const std::function<void(std::string_view)>& use);

}  // namespace headrace
