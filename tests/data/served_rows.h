// What a TextSource served, row by row, and random folders to serve from.
#pragma once

#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/random_text.h"
#include "headrace/text_source.h"
#include "temporary_folder.h"

namespace headrace::testing {

using Tokens = std::vector<std::int32_t>;

struct Row {
  Tokens tokens, anchors;
  bool operator==(const Row&) const = default;
  auto operator<=>(const Row&) const = default;
};

// The rows of a batch without padding; the padding is checked.
inline std::vector<Row> rows_of(const TokenBatch& batch, std::int32_t pad) {
  RC_ASSERT(batch.tokens.size() == batch.rows * batch.length &&
            batch.row_lengths.size() == batch.rows);
  RC_ASSERT(batch.anchors.size() == batch.rows * batch.anchors_per_row);
  std::vector<Row> rows;
  for (std::uint64_t r = 0; r < batch.rows; ++r) {
    const auto tokens = batch.tokens.begin() + static_cast<std::ptrdiff_t>(r * batch.length);
    const auto anchors =
        batch.anchors.begin() + static_cast<std::ptrdiff_t>(r * batch.anchors_per_row);
    const auto end = tokens + static_cast<std::ptrdiff_t>(batch.length);
    RC_ASSERT(std::all_of(tokens + batch.row_lengths[r], end,
                          [&](std::int32_t id) { return id == pad; }));
    rows.push_back({Tokens(tokens, tokens + batch.row_lengths[r]),
                    Tokens(anchors, anchors + static_cast<std::ptrdiff_t>(batch.anchors_per_row))});
  }
  return rows;
}

struct Served {
  std::vector<TokenBatch> batches;
  std::vector<Row> rows;
};

inline Served serve_from(const Manifest& manifest, const TextOptions& options,
                         const Position& start = {}) {
  TextSource source(manifest, options, encode_bytes);
  source.seek(start);
  Served run;
  for (TokenBatch batch; source.next(batch);) {
    run.batches.push_back(batch);
    for (Row& row : rows_of(batch, options.pad_token)) run.rows.push_back(std::move(row));
  }
  return run;
}

// A folder of up to 150 files (windows hold 64) with random bytes.
struct RandomFolder {
  TemporaryFolder folder;
  std::vector<std::string> contents;
  Manifest manifest;

  RandomFolder() {
    const auto kinds = *rc::gen::container<std::vector<std::string>>(content(false));
    const auto repeats = *rc::gen::inRange(1, 4);
    for (int i = 0; i < repeats; ++i)
      for (const std::string& bytes : kinds) contents.push_back(bytes + std::to_string(i));
    contents.push_back("never empty");
    for (std::size_t i = 0; i < contents.size(); ++i)
      folder.write(fmt::format("f{}.txt", i), contents[i]);
    manifest = scan({folder.path()});
  }
};

inline TextOptions random_options() {
  return {.rows = *rc::gen::inRange<std::uint64_t>(1, 9),
          .length = *rc::gen::inRange<std::uint64_t>(3, 40),
          .anchors = *rc::gen::inRange<std::uint64_t>(1, 12),
          .seed = *rc::gen::arbitrary<std::uint64_t>(),
          .epochs = *rc::gen::inRange<std::uint64_t>(1, 4),
          .pad_token = -5,
          .workers = *rc::gen::inRange<std::uint64_t>(0, 4)};
}

}  // namespace headrace::testing
