#include "data/window.h"

#include <algorithm>

#include "data/anchors.h"
#include "data/counter_rng.h"
#include "headrace/error.h"

namespace headrace {

WindowSource::WindowSource(Manifest manifest, const TextOptions& options, Encode encode)
    : manifest_(std::move(manifest)),
      options_(options),
      encode_(std::move(encode)),
      id_(manifest_.id()),
      pieces_(cut(manifest_)),
      files_(manifest_) {
  at_.manifest = id_;
}

void WindowSource::seek(const Position& position) {
  const auto files =
      position.manifest.empty() ? manifest_.files.size() : manifest_.prefix_with(position.manifest);
  if (!files)
    fail(ErrorCode::bad_input,
         "position: of manifest {}, but the data is manifest {}; resume with the same --data",
         position.manifest, id_);
  if (position.carry_tokens != 0)
    fail(
        ErrorCode::bad_input,
        "position: carry_tokens is {}, but rows of text share no document; it is of another source",
        position.carry_tokens);
  std::vector<std::uint64_t> order = order_of(position.epoch, *files);
  if (position.shard != 0 && position.shard >= order.size())
    fail(ErrorCode::bad_input,
         "position: piece {} of an epoch with {} pieces; it was not made with this data",
         position.shard, order.size());
  Position at = position;
  if (at.manifest.empty()) at.manifest = id_;
  at.row = 0;
  at_ = std::move(at);
  order_ = std::move(order);
}

// Training pieces of the first `files` files, permuted for the epoch.
std::vector<std::uint64_t> WindowSource::order_of(std::uint64_t epoch, std::size_t files) const {
  const std::vector<bool> held = held_out_files(std::span(manifest_.files).first(files));
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 0; i < pieces_.size() && pieces_[i].file < files; ++i)
    if (!held[pieces_[i].file]) order.push_back(i);
  shuffle(std::span(order), CounterRng(options_.seed, Draw::piece_order, {epoch}));
  return order;
}

bool WindowSource::claim(Window& window) {
  if (options_.epochs != 0 && at_.epoch >= options_.epochs) return false;
  if (order_.empty()) order_ = order_of(at_.epoch, manifest_.files.size());
  if (order_.empty()) return false;
  window.epoch = at_.epoch;
  window.first = at_.shard;
  for (std::uint64_t bytes = 0; at_.shard < order_.size() && window.pieces.size() < kWindowPieces;
       ++at_.shard) {
    const Piece& piece = pieces_[order_[at_.shard]];
    bytes += piece.length;
    if (bytes > kWindowBytes && !window.pieces.empty()) break;
    window.pieces.push_back(piece);
  }
  if (at_.shard == order_.size()) {
    at_.shard = 0;
    ++at_.epoch;
    at_.manifest = id_;
    order_.clear();
  }
  window.position = at_;
  return true;
}

void WindowSource::make(Window& window, const std::stop_token& stop) {
  PieceCounts found;
  for (const Piece& piece : window.pieces) {
    if (stop.stop_requested()) return;
    for_each_document(files_, piece, found,
                      [&](std::string_view document) { add_rows(window, document); });
  }
  window.found.invalid_utf8_bytes = found.invalid_utf8_bytes;
  window.found.plain_json_lines = found.plain_json_lines;
  shuffle(std::span(window.rows),
          CounterRng(options_.seed, Draw::row_order, {window.epoch, window.first}));
}

void WindowSource::add_rows(Window& window, std::string_view document) const {
  const std::vector<std::int32_t> ids = encode_(document);
  for (std::uint64_t begin = 0; begin < ids.size(); begin += options_.length) {
    const std::uint64_t length = std::min<std::uint64_t>(options_.length, ids.size() - begin);
    if (length < kShortestRow) {
      ++window.found.dropped_rows;
      window.found.dropped_tokens += length;
      break;
    }
    window.rows.push_back({window.tokens.size() + begin, length});
  }
  window.tokens.insert(window.tokens.end(), ids.begin(), ids.end());
}

}  // namespace headrace
