#include "headrace/text_source.h"

#include <algorithm>
#include <numeric>

#include "data/anchors.h"
#include "data/counter_rng.h"
#include "data/pieces.h"
#include "headrace/error.h"

namespace headrace {
namespace {

constexpr std::uint64_t kWindowPieces = 64, kWindowBytes = 4 << 20;

// The tokenised pieces order[first, end), cut into rows, in the order in which rows are served.
struct Window {
  struct Row {
    std::uint64_t begin, length;  // in tokens
  };
  std::uint64_t first = 0, end = 0;
  std::vector<std::int32_t> tokens;
  std::vector<Row> rows;
  bool loaded = false;
};

void check(const TextOptions& options) {
  if (options.rows == 0) fail(ErrorCode::usage, "--batch 0: a batch needs at least one row");
  if (options.anchors == 0) fail(ErrorCode::usage, "--anchors 0: a row needs at least one anchor");
  if (options.length < kShortestRow)
    fail(ErrorCode::usage,
         "--length {}: a row needs at least {} tokens: context, an anchor and a label",
         options.length, kShortestRow);
}

}  // namespace

std::uint64_t TokenBatch::token_count() const {
  return std::accumulate(row_lengths.begin(), row_lengths.end(), std::uint64_t{0});
}

std::uint64_t TokenBatch::bytes() const {
  return sizeof(*this) +
         sizeof(std::int32_t) * (tokens.size() + row_lengths.size() + anchors.size());
}

struct TextSource::State {
  Manifest manifest;
  TextOptions options;
  Encode encode;
  std::string manifest_id;
  std::vector<Piece> pieces;
  TextCounts counts;

  Position at;                       // of the next row
  std::vector<std::uint64_t> order;  // the pieces of epoch at.epoch; empty: to be made
  Window window;
  bool rows_in_epoch = false;
  int epochs_without_rows = 0;  // successive ones; the first may have been entered in its middle

  State(Manifest the_manifest, TextOptions the_options, Encode the_encode)
      : manifest(std::move(the_manifest)),
        options(the_options),
        encode(std::move(the_encode)),
        manifest_id(manifest.id()),
        pieces(cut(manifest)) {
    check(options);
    const std::vector<bool> held = held_out_files(manifest.files);
    counts.files = manifest.files.size();
    counts.held_out_files = static_cast<std::uint64_t>(std::ranges::count(held, true));
    for (const ManifestFile& file : manifest.files) counts.bytes += file.size;
    counts.pieces = pieces.size();
    at.manifest = manifest_id;
  }

  // Training pieces of the first `files` files, permuted for the epoch.
  void make_order(std::size_t files) {
    const std::vector<bool> held = held_out_files(std::span(manifest.files).first(files));
    order.clear();
    for (std::uint64_t i = 0; i < pieces.size() && pieces[i].file < files; ++i)
      if (!held[pieces[i].file]) order.push_back(i);
    shuffle(std::span(order), CounterRng(options.seed, Draw::piece_order, {at.epoch}));
  }

  void add_rows(std::string_view document) {
    const std::vector<std::int32_t> ids = encode(document);
    for (std::uint64_t begin = 0; begin < ids.size(); begin += options.length) {
      const std::uint64_t length = std::min<std::uint64_t>(options.length, ids.size() - begin);
      if (length < kShortestRow) {
        ++counts.dropped_rows;
        counts.dropped_tokens += length;
        break;
      }
      window.rows.push_back({window.tokens.size() + begin, length});
    }
    window.tokens.insert(window.tokens.end(), ids.begin(), ids.end());
  }

  void load_window() {
    window.loaded = false;
    window.first = window.end = at.shard;
    window.tokens.clear();
    window.rows.clear();
    PieceCounts found;
    for (std::uint64_t bytes = 0;
         window.end < order.size() && window.end - window.first < kWindowPieces; ++window.end) {
      const Piece& piece = pieces[order[window.end]];
      bytes += piece.length;
      if (bytes > kWindowBytes && window.end > window.first) break;
      for_each_document(manifest, piece, found,
                        [&](std::string_view document) { add_rows(document); });
    }
    counts.invalid_utf8_bytes += found.invalid_utf8_bytes;
    counts.plain_json_lines += found.plain_json_lines;
    shuffle(std::span(window.rows),
            CounterRng(options.seed, Draw::row_order, {at.epoch, window.first}));
    if (at.row > window.rows.size())
      fail(ErrorCode::bad_input,
           "position: row {} of a window with {} rows; resume with the seed, length and tokenizer "
           "it was made with",
           at.row, window.rows.size());
    window.loaded = true;
  }

  void go_to_next_window() {
    window.loaded = false;
    at.row = 0;
    at.shard = window.end;
    if (at.shard < order.size()) return;
    at.shard = 0;
    ++at.epoch;
    at.manifest = manifest_id;
    order.clear();
    epochs_without_rows = rows_in_epoch ? 0 : epochs_without_rows + 1;
    rows_in_epoch = false;
  }

  // Makes the row at the position available; false where there is none any more.
  bool find_row() {
    while (epochs_without_rows < 2 && (options.epochs == 0 || at.epoch < options.epochs)) {
      if (order.empty()) make_order(manifest.files.size());
      if (order.empty()) return false;
      if (!window.loaded) load_window();
      if (at.row < window.rows.size()) return rows_in_epoch = true;
      go_to_next_window();
    }
    return false;
  }

  void pack_row(TokenBatch& batch) {
    const Window::Row& row = window.rows[at.row];
    const auto from = window.tokens.begin() + static_cast<std::ptrdiff_t>(row.begin);
    batch.tokens.insert(batch.tokens.end(), from, from + static_cast<std::ptrdiff_t>(row.length));
    batch.tokens.resize((batch.rows + 1) * options.length, options.pad_token);
    batch.row_lengths.push_back(static_cast<std::int32_t>(row.length));
    batch.anchors.resize((batch.rows + 1) * options.anchors);
    sample_anchors(CounterRng(options.seed, Draw::anchors, {at.rng_counter}), row.length,
                   std::span(batch.anchors).last(options.anchors));
    ++batch.rows;
    ++at.rng_counter;
    if (++at.row == window.rows.size()) go_to_next_window();
  }

  void seek(const Position& position) {
    const auto files =
        position.manifest.empty() ? manifest.files.size() : manifest.prefix_with(position.manifest);
    if (!files)
      fail(ErrorCode::bad_input,
           "position: of manifest {}, but the data is manifest {}; resume with the same --data",
           position.manifest, manifest_id);
    at = position;
    if (at.manifest.empty()) at.manifest = manifest_id;
    window.loaded = rows_in_epoch = false;
    epochs_without_rows = 0;
    make_order(*files);
    if (at.shard != 0 && at.shard >= order.size())
      fail(ErrorCode::bad_input,
           "position: piece {} of an epoch with {} pieces; it was not made with this data",
           at.shard, order.size());
  }
};

TextSource::TextSource(Manifest manifest, TextOptions options, Encode encode)
    : state_(std::make_unique<State>(std::move(manifest), options, std::move(encode))) {}
TextSource::~TextSource() = default;

void TextSource::seek(const Position& position) {
  state_->seek(position);
}

bool TextSource::next(TokenBatch& batch) {
  State& state = *state_;
  batch.rows = 0;
  batch.length = state.options.length;
  batch.anchors_per_row = state.options.anchors;
  batch.tokens.clear();
  batch.row_lengths.clear();
  batch.anchors.clear();
  const Position before = state.at;
  try {
    while (batch.rows < state.options.rows && state.find_row()) state.pack_row(batch);
  } catch (...) {
    state.seek(before);
    throw;
  }
  if (batch.rows == 0) return false;
  ++state.at.batch;
  batch.position = state.at;
  return true;
}

TextCounts TextSource::counts() const {
  return state_->counts;
}

}  // namespace headrace
