// Text and source files to training batches: rows of tokens and anchors, with a position each.
// Layer: data (the tokenizer comes in as a function).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/position.h"

namespace headrace {

using Encode = std::function<std::vector<std::int32_t>(std::string_view bytes)>;

// One file, immutable while it stands in a manifest.
struct ManifestFile {
  std::string path;      // as opened
  std::string relative;  // to the --data argument it came from: its key in hashes and messages
  std::uint64_t size = 0;
  std::string sha256;    // whole file up to 1 GiB; above: size, ends and samples ("sampled:" in front)
};

struct Manifest {
  std::vector<ManifestFile> files;  // sorted by relative path; new files may be appended after them
  std::string id() const;           // sha256 over names, sizes and hashes
};

// Walks --data arguments. In folders it takes files with the extension of a text or source format and no
// NUL byte, and passes over hidden folders, site-packages, __pycache__, node_modules and test folders.
// Error(bad_input) names an argument that does not exist or a folder without text.
Manifest scan(const std::vector<std::string>& paths, bool verify_full = false);

// Error(bad_input) names the first file that was changed or removed since `old`; files that `now` adds are fine.
void check_unchanged(const Manifest& old, const Manifest& now);

// Whether a file is held out for evaluation: 5 %, by a hash of its relative path.
bool held_out(const std::string& relative);

struct TextOptions {
  std::uint64_t rows = 4;         // rows a batch
  std::uint64_t length = 256;     // tokens a row, padded
  std::uint64_t anchors = 32;     // anchors a row at most
  std::uint64_t block = 8;        // an anchor needs one supervised successor; blocks may overlap
  std::uint64_t seed = 1;
  std::uint64_t epochs = 0;       // 0: endless
  std::int32_t pad_token = 0;
};

// One batch. Rows never hold two documents. Everything is determined by (manifest, options, position).
struct TokenBatch {
  std::uint64_t rows = 0, length = 0, anchors_per_row = 0;
  std::vector<std::int32_t> tokens;       // [rows, length], padded with pad_token
  std::vector<std::int32_t> row_lengths;  // [rows]; rows of the last, partial batch are simply fewer
  std::vector<std::int32_t> anchors;      // [rows, anchors_per_row], ascending; -1 where a row has fewer candidates
  Position position;                      // just after this batch
  std::uint64_t token_count() const;      // sum of row_lengths
  std::uint64_t bytes() const;            // memory held
};

struct TextCounts {
  std::uint64_t files = 0, held_out_files = 0, bytes = 0, invalid_utf8_bytes = 0, pieces = 0;
};

// Serves batches in an order that is a function of the seed. Documents are read, split into pieces of at
// most 1 MiB (at line ends where there are any) and tokenised a window of pieces at a time, so memory is
// bounded whatever the files' sizes. Not thread-safe: one producer, behind a Prefetch.
class TextSource {
 public:
  TextSource(Manifest manifest, TextOptions options, Encode encode);
  ~TextSource();

  void seek(const Position& position);  // Error(bad_input) where it belongs to another manifest
  bool next(TokenBatch& batch);         // false at the end of the last epoch
  TextCounts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Token sequences of the held-out files, for evaluation: `count` prefixes of `length` tokens, spread over the files.
std::vector<std::vector<std::int32_t>> held_out_prefixes(const Manifest& manifest, const Encode& encode,
                                                         std::size_t count, std::size_t length, std::uint64_t seed);

}  // namespace headrace
