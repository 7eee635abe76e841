#include "data/pieces.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/input_file.h"
#include "data/utf8.h"

namespace headrace {
namespace {

constexpr std::uint64_t kLineSearched = 4 << 10;  // bytes before a cut; few lines are longer

// Length of the piece that starts at offset. `block` is scratch.
std::uint64_t piece_length(const InputFile& file, std::uint64_t size, std::uint64_t offset,
                           std::string& block) {
  const std::uint64_t rest = size - offset;
  if (rest <= kPieceBytes) return rest;
  for (const std::uint64_t searched : {kLineSearched, kPieceBytes}) {
    file.read(offset + kPieceBytes - searched, searched, block);
    if (const auto at = block.rfind('\n'); at != std::string::npos)
      return kPieceBytes - searched + at + 1;
  }
  const std::uint64_t longest = std::min(rest, kLongestPiece);
  file.read(offset, longest, block);
  if (const auto at = block.find('\n', kPieceBytes); at != std::string::npos) return at + 1;
  return longest == rest ? rest : whole_characters(block);
}

std::optional<std::string> text_of(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto text = json.find("text");
  if (text == json.end() || !text->is_string()) return std::nullopt;
  return text->get<std::string>();
}

}  // namespace

std::vector<Piece> cut(const Manifest& manifest) {
  std::vector<Piece> pieces;
  std::string block;
  for (std::uint32_t i = 0; i < manifest.files.size(); ++i) {
    const std::uint64_t size = manifest.files[i].size;
    if (size == 0) continue;
    if (size <= kPieceBytes) {
      pieces.push_back({.file = i, .length = static_cast<std::uint32_t>(size), .offset = 0});
      continue;
    }
    const InputFile file(manifest.files[i].path);
    for (std::uint64_t offset = 0; offset < size; offset += pieces.back().length) {
      const auto length = static_cast<std::uint32_t>(piece_length(file, size, offset, block));
      pieces.push_back({.file = i, .length = length, .offset = offset});
    }
  }
  return pieces;
}

void for_each_document(VerifiedFiles& files, const Piece& piece, PieceCounts& counts,
                       const std::function<void(std::string_view)>& use) {
  std::string bytes;
  files.read(piece.file, piece.offset, piece.length, bytes);
  counts.invalid_utf8_bytes += invalid_utf8_bytes(bytes);
  if (!files.manifest().files[piece.file].relative.ends_with(".jsonl")) return use(bytes);

  for (std::string_view rest = bytes; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (const auto text = text_of(line)) {
      use(*text);
    } else {
      ++counts.plain_json_lines;
      use(line);
    }
  }
}

}  // namespace headrace
