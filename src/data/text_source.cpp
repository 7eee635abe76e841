#include "headrace/text_source.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "data/anchors.h"
#include "data/counter_rng.h"
#include "data/window.h"
#include "headrace/error.h"
#include "headrace/prefetch.h"

namespace headrace {
namespace {

const TextOptions& checked(const TextOptions& options) {
  if (options.rows == 0) fail(ErrorCode::usage, "--batch 0: a batch needs at least one row");
  if (options.anchors == 0) fail(ErrorCode::usage, "--anchors 0: a row needs at least one anchor");
  if (options.length < kShortestRow)
    fail(ErrorCode::usage,
         "--length {}: a row needs at least {} tokens: context, an anchor and a label",
         options.length, kShortestRow);
  return options;
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
  TextOptions options;
  WindowSource source;
  TextCounts counts;

  Position at;               // of the next row
  Window* window = nullptr;  // of the next row; nullptr: to be waited for
  bool rows_in_epoch = false;
  int epochs_without_rows = 0;  // successive ones; the first may have been entered in its middle
  std::optional<Prefetch<Window>> windows;  // last: its threads use the source

  State(Manifest manifest, const TextOptions& the_options, Encode encode)
      : options(checked(the_options)), source(std::move(manifest), options, std::move(encode)) {
    const std::vector<ManifestFile>& files = source.manifest().files;
    const std::vector<bool> held = held_out_files(files);
    counts.files = files.size();
    counts.held_out_files = static_cast<std::uint64_t>(std::ranges::count(held, true));
    for (const ManifestFile& file : files) counts.bytes += file.size;
    counts.pieces = source.pieces();
    at.manifest = source.manifest_id();
  }

  // Makes the row at the position available; false where there is none any more.
  bool find_row(const std::stop_token& stop) {
    while (epochs_without_rows < 2) {
      if (window == nullptr && !next_window(stop)) return false;
      if (at.row < window->rows.size()) return rows_in_epoch = true;
      leave_window();
    }
    return false;
  }

  bool next_window(const std::stop_token& stop) {
    const bool first = !windows;
    if (first)
      windows.emplace(
          Source<Window>(
              [this](Window& next) { return source.claim(next); },
              [this](Window& next, const std::stop_token& ended) { source.make(next, ended); }),
          PrefetchOptions{.name = "tokenise",
                          .depth = options.workers + 1,
                          .workers = options.workers,
                          .nice = 0});  // that of the caller's thread, which it may have lowered
    if (!(first ? windows->prime(stop) : windows->next(stop))) return false;
    window = &windows->current();
    counts.invalid_utf8_bytes += window->found.invalid_utf8_bytes;
    counts.plain_json_lines += window->found.plain_json_lines;
    counts.dropped_rows += window->found.dropped_rows;
    counts.dropped_tokens += window->found.dropped_tokens;
    if (at.row > window->rows.size())
      fail(ErrorCode::bad_input,
           "position: row {} of a window with {} rows; resume with the seed, length and tokenizer "
           "it was made with",
           at.row, window->rows.size());
    return true;
  }

  // The position moves on at once; the following window is waited for when its first row is due.
  void leave_window() {
    const Position& next = window->position;
    if (next.epoch != at.epoch) {
      epochs_without_rows = rows_in_epoch ? 0 : epochs_without_rows + 1;
      rows_in_epoch = false;
    }
    at.manifest = next.manifest;
    at.epoch = next.epoch;
    at.shard = next.shard;
    at.row = 0;
    window = nullptr;
  }

  void pack_row(TokenBatch& batch) {
    const Window::Row& row = window->rows[at.row];
    const auto from = window->tokens.begin() + static_cast<std::ptrdiff_t>(row.begin);
    batch.tokens.insert(batch.tokens.end(), from, from + static_cast<std::ptrdiff_t>(row.length));
    batch.tokens.resize((batch.rows + 1) * options.length, options.pad_token);
    batch.row_lengths.push_back(static_cast<std::int32_t>(row.length));
    batch.anchors.resize((batch.rows + 1) * options.anchors);
    sample_anchors(CounterRng(options.seed, Draw::anchors, {at.rng_counter}), row.length,
                   std::span(batch.anchors).last(options.anchors));
    ++batch.rows;
    ++at.rng_counter;
    if (++at.row == window->rows.size()) leave_window();
  }

  void seek(const Position& position) {
    windows.reset();
    window = nullptr;
    try {
      source.seek(position);
    } catch (...) {
      source.seek(at);  // the windows that were claimed ahead are due again
      throw;
    }
    at = position;
    if (at.manifest.empty()) at.manifest = source.manifest_id();
    rows_in_epoch = false;
    epochs_without_rows = 0;
  }
};

TextSource::TextSource(Manifest manifest, TextOptions options, Encode encode)
    : state_(std::make_unique<State>(std::move(manifest), options, std::move(encode))) {}
TextSource::~TextSource() = default;

void TextSource::seek(const Position& position) {
  state_->seek(position);
}

bool TextSource::next(TokenBatch& batch, const std::stop_token& stop) {
  State& state = *state_;
  batch.rows = 0;
  batch.length = state.options.length;
  batch.anchors_per_row = state.options.anchors;
  batch.tokens.clear();
  batch.row_lengths.clear();
  batch.anchors.clear();
  const Position before = state.at;
  try {
    while (batch.rows < state.options.rows && state.find_row(stop)) state.pack_row(batch);
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
