// Text in windows: the unit that is read, tokenised and shuffled at once. A Source in two halves,
// see headrace/source.h: what a window holds is known from the sizes of its pieces.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "data/pieces.h"
#include "data/verified_files.h"
#include "headrace/text_source.h"

namespace headrace {

inline constexpr std::uint64_t kWindowPieces = 64, kWindowBytes = 4 << 20;

struct Window {
  struct Row {
    std::uint64_t begin, length;  // in tokens
  };
  // Set by claim().
  std::uint64_t epoch = 0, first = 0;  // index of the first piece in the epoch's order
  std::vector<Piece> pieces;
  Position position;  // of the first row of the following window
  // Set by make().
  std::vector<std::int32_t> tokens;  // of one document after another
  std::vector<Row> rows;             // in the order in which they are served
  TextCounts found;                  // in this window
};

class WindowSource {
 public:
  WindowSource(Manifest manifest, const TextOptions& options, Encode encode);
  WindowSource(const WindowSource&) = delete;
  WindowSource& operator=(const WindowSource&) = delete;

  const Manifest& manifest() const { return manifest_; }
  const std::string& manifest_id() const { return id_; }
  std::uint64_t pieces() const { return pieces_.size(); }

  // The window that begins at the position's shard is claimed next. Error(bad_input) where there is
  // no such window in this data; nothing has then changed.
  void seek(const Position& position);
  bool claim(Window& window);  // false: after the last epoch, and where there is no piece
  void make(Window& window, const std::stop_token& stop);

 private:
  std::vector<std::uint64_t> order_of(std::uint64_t epoch, std::size_t files) const;
  void add_rows(Window& window, std::string_view document) const;

  const Manifest manifest_;
  const TextOptions options_;
  const Encode encode_;
  const std::string id_;
  const std::vector<Piece> pieces_;
  VerifiedFiles files_;
  Position at_;                       // of the window that is claimed next
  std::vector<std::uint64_t> order_;  // the pieces of epoch at_.epoch; empty: to be made
};

}  // namespace headrace
