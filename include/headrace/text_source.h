// Text and source files to training batches: rows of tokens and anchors, with a position each.
// Layer: data (the tokenizer comes in as a function).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>
#include <vector>

#include "headrace/manifest.h"
#include "headrace/position.h"

namespace headrace {

// Called from TextOptions::workers threads at once.
using Encode = std::function<std::vector<std::int32_t>(std::string_view bytes)>;

struct TextOptions {
  std::uint64_t rows = 4;      // rows a batch
  std::uint64_t length = 256;  // tokens a row, padded; at least 3
  std::uint64_t anchors = 32;  // anchors a row at most
  std::uint64_t seed = 1;
  std::uint64_t epochs = 0;  // 0: endless
  std::int32_t pad_token = 0;
  std::uint64_t workers = 1;  // threads that read and tokenise ahead; 0: the caller's does it. The
                              // rows are the same whatever their number
};

// One batch. Rows never hold two documents. An anchor has a token before it in its row (its
// context) and one after it (its first label); the blocks of two anchors may overlap.
struct TokenBatch {
  std::uint64_t rows = 0, length = 0, anchors_per_row = 0;
  std::vector<std::int32_t> tokens;  // [rows, length], padded with pad_token
  std::vector<std::int32_t>
      row_lengths;  // [rows]; the last batch of the last epoch may have fewer rows
  std::vector<std::int32_t>
      anchors;        // [rows, anchors_per_row], ascending; -1 where a row has fewer
  Position position;  // just after this batch

  std::uint64_t token_count() const;  // without padding
  std::uint64_t bytes() const;        // memory held
};

struct TextCounts {
  // Of the manifest.
  std::uint64_t files = 0, held_out_files = 0, bytes = 0, pieces = 0;
  // Of the windows that rows were served from since construction; one that is read again counts
  // again.
  std::uint64_t invalid_utf8_bytes = 0;  // kept as they are
  std::uint64_t plain_json_lines = 0;    // .jsonl lines without a "text": taken as plain text
  std::uint64_t dropped_rows = 0, dropped_tokens = 0;  // ends of documents too short for an anchor
};

// Serves batches in an order that is a function of the seed.
//
// Files are cut into pieces at line ends: 64 KiB each, up to 1 MiB where a line is that long;
// longer lines are cut between characters. Each line of a .jsonl file is a document (its "text"),
// any other piece is one. An epoch is a permutation of the pieces. A window, its next 64 pieces or
// 4 MiB, is read, tokenised and its rows shuffled, by TextOptions::workers threads ahead or, with
// none, when its first row is due. At most workers + 1 windows are held, 4 bytes a token and 16 a
// row: so memory is bounded whatever the files' sizes. Batches run on over windows and epochs.
//
// Position: `epoch`, `shard` (index of the window's first piece in the epoch's order), `row` (in
// the window), `rng_counter` (rows served in the run; keys the anchors of a row), `manifest`.
// Batches after a position are determined by it, the manifest, length, anchors, seed and tokenizer;
// the number of rows a batch and that of workers may change. Files appended to the manifest join at
// the next epoch.
//
// A file that cannot be read, or that is not what the manifest says, also one that is changed while
// it is trained on, is Error(bad_input) with its name. It is thrown by the next() whose batch would
// have a row of its window. When next() throws, the position stays before the batch, so that with
// the file back a later next() goes on.
//
// One thread calls. The workers' threads start with the first next(), with the priority and cores of
// the thread that called it, and have ended when seek() returns or the source is gone.
class TextSource {
 public:
  TextSource(Manifest manifest, TextOptions options, Encode encode);
  ~TextSource();

  // Error(bad_input) where the position belongs to another manifest. One that does not fit seed,
  // length or tokenizer may be found out only by next(). A seek that throws changes
  // nothing.
  void seek(const Position& position);
  // False at the end of the last epoch, or where no document gives a row. Error(cancelled) where
  // `stop` ends the wait for a window; with 0 workers it is looked at before a window is made.
  bool next(TokenBatch& batch, const std::stop_token& stop = {});
  TextCounts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Token sequences of the held-out files, for evaluation: `count` prefixes of `length` tokens with
// at least as many tokens after them in their piece, in turn from each file; fewer where the files
// have no more. Empty where nothing is held out.
std::vector<std::vector<std::int32_t>> held_out_prefixes(const Manifest& manifest,
                                                         const Encode& encode, std::size_t count,
                                                         std::size_t length, std::uint64_t seed);

}  // namespace headrace
