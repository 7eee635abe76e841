#include <algorithm>
#include <map>

#include "data/counter_rng.h"
#include "data/pieces.h"
#include "headrace/text_source.h"

namespace headrace {
namespace {

using Tokens = std::vector<std::int32_t>;

// The pieces of held-out files in a random order that takes one of each file in turn.
std::vector<Piece> in_turn(const Manifest& manifest, std::uint64_t seed) {
  const std::vector<bool> held = held_out_files(manifest.files);
  std::map<std::uint32_t, std::vector<Piece>> by_file;
  for (const Piece& piece : cut(manifest))
    if (held[piece.file]) by_file[piece.file].push_back(piece);

  std::vector<std::vector<Piece>> files;
  for (auto& [file, pieces] : by_file) {
    shuffle(std::span(pieces), CounterRng(seed, Draw::held_out_pieces, {file}));
    files.push_back(std::move(pieces));
  }
  shuffle(std::span(files), CounterRng(seed, Draw::held_out_files, {}));

  std::vector<Piece> order;
  for (std::size_t turn = 0, taken = 1; taken > 0; ++turn) {
    taken = 0;
    for (const std::vector<Piece>& pieces : files)
      if (turn < pieces.size()) order.push_back(pieces[turn]), ++taken;
  }
  return order;
}

// The prefixes that a piece can give, at multiples of `length` tokens, in random order.
std::vector<Tokens> prefixes_of(VerifiedFiles& files, const Piece& piece, const Encode& encode,
                                std::size_t length, std::uint64_t seed) {
  std::vector<Tokens> prefixes;
  PieceCounts ignored;
  for_each_document(files, piece, ignored, [&](std::string_view document) {
    const Tokens ids = encode(document);
    for (auto begin = ids.begin(); ids.end() - begin >= 2 * static_cast<std::ptrdiff_t>(length);
         begin += length)
      prefixes.emplace_back(begin, begin + length);
  });
  shuffle(std::span(prefixes), CounterRng(seed, Draw::held_out_chunks, {piece.file, piece.offset}));
  return prefixes;
}

}  // namespace

std::vector<Tokens> held_out_prefixes(const Manifest& manifest, const Encode& encode,
                                      std::size_t count, std::size_t length, std::uint64_t seed) {
  if (length == 0) return {};
  std::vector<std::vector<Tokens>>
      sources;  // pieces that give a prefix: no more of them than prefixes wanted
  VerifiedFiles files(manifest);
  for (const Piece& piece : in_turn(manifest, seed)) {
    if (sources.size() == count) break;
    auto prefixes = prefixes_of(files, piece, encode, length, seed);
    if (!prefixes.empty()) sources.push_back(std::move(prefixes));
  }
  std::vector<Tokens> chosen;
  for (std::size_t turn = 0, taken = 1; taken > 0; ++turn) {
    taken = 0;
    for (std::vector<Tokens>& prefixes : sources)
      if (turn < prefixes.size() && chosen.size() < count)
        chosen.push_back(std::move(prefixes[turn])), ++taken;
  }
  return chosen;
}

}  // namespace headrace
