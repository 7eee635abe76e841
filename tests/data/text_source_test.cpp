#include "headrace/text_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>

#include "data/anchors.h"
#include "data/served_rows.h"
#include "headrace/error.h"

namespace headrace {
namespace {

using testing::encode_bytes;
using testing::random_options;
using testing::RandomFolder;
using testing::Row;
using testing::rows_of;
using testing::serve_from;
using testing::Served;
using testing::TemporaryFolder;
using testing::Tokens;

// Each epoch serves each chunk of each training file once; no row holds bytes of two files, none of
// a held-out one. The expected chunks are made from the files' bytes.
TEST(TextSource, EveryTrainingTokenOnceAnEpoch) {
  EXPECT_TRUE(rc::check([] {
    const RandomFolder data;
    const TextOptions options = random_options();
    const std::vector<bool> held = held_out_files(data.manifest.files);
    std::vector<Tokens> expected;
    std::uint64_t dropped = 0;
    for (std::size_t i = 0; i < data.contents.size(); ++i) {
      const std::string name = fmt::format("f{}.txt", i);
      const auto file = std::ranges::find(data.manifest.files, name, &ManifestFile::relative);
      RC_ASSERT(file != data.manifest.files.end());
      if (held[static_cast<std::size_t>(file - data.manifest.files.begin())]) continue;
      for (std::size_t at = 0; at < data.contents[i].size(); at += options.length) {
        const Tokens chunk =
            encode_bytes(std::string_view(data.contents[i]).substr(at, options.length));
        if (chunk.size() < kShortestRow)
          dropped += chunk.size();
        else
          expected.push_back(chunk);
      }
    }
    std::ranges::sort(expected);

    TextSource source(data.manifest, options, encode_bytes);
    std::vector<Row> rows;
    for (TokenBatch batch; source.next(batch);)
      for (Row& row : rows_of(batch, options.pad_token)) rows.push_back(std::move(row));
    RC_ASSERT(rows.size() == expected.size() * options.epochs);
    RC_ASSERT(source.counts().dropped_tokens == dropped * options.epochs);
    for (std::uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
      std::vector<Tokens> served;
      for (std::size_t i = 0; i < expected.size(); ++i)
        served.push_back(rows[epoch * expected.size() + i].tokens);
      std::ranges::sort(served);
      RC_ASSERT(served == expected);
    }
  }));
}

TEST(TextSource, OnlyTheLastBatchMayBeShort) {
  EXPECT_TRUE(rc::check([] {
    const RandomFolder data;
    const TextOptions options = random_options();
    const Served run = serve_from(data.manifest, options);
    for (std::size_t i = 0; i < run.batches.size(); ++i) {
      RC_ASSERT(run.batches[i].position.batch == i + 1);
      RC_ASSERT(run.batches[i].rows == options.rows || i + 1 == run.batches.size());
    }
  }));
}

// Killed at any batch and resumed, three times, each time with another number of rows a batch and of
// workers: the rows are those of the uninterrupted run. (KempnerForge#57: the second resume of an
// epoch shifted; lhotse#785: two resumes ended early; maxtext#1760: the number of processes had to
// stay.)
TEST(TextSource, ResumeIsExact) {
  EXPECT_TRUE(rc::check([] {
    const RandomFolder data;
    TextOptions options = random_options();
    const Served whole = serve_from(data.manifest, options);
    RC_PRE(!whole.batches.empty());

    const std::size_t stop = *rc::gen::inRange<std::size_t>(0, whole.batches.size());
    const Served same = serve_from(data.manifest, options, whole.batches[stop].position);
    RC_ASSERT(same.batches.size() == whole.batches.size() - stop - 1);
    for (std::size_t i = 0; i < same.batches.size(); ++i)
      RC_ASSERT(same.batches[i].position == whole.batches[stop + 1 + i].position);

    std::vector<Row> trained;
    Position position;
    for (int resume = 0; resume < 4; ++resume) {
      options.rows = *rc::gen::inRange<std::uint64_t>(1, 9);
      options.workers = *rc::gen::inRange<std::uint64_t>(0, 4);
      TextSource source(data.manifest, options, encode_bytes);
      source.seek(position);
      const auto batches = resume == 3 ? SIZE_MAX : *rc::gen::inRange<std::size_t>(0, 20);
      TokenBatch batch;
      for (std::size_t i = 0; i < batches && source.next(batch); ++i) {
        for (Row& row : rows_of(batch, options.pad_token)) trained.push_back(std::move(row));
        position = batch.position;
      }
    }
    RC_ASSERT(trained == whole.rows);
  }));
}

TEST(TextSource, SeedsAndEpochsGiveOtherOrdersAndAnchors) {
  const TemporaryFolder folder;
  for (int i = 0; i < 100; ++i)
    folder.write(fmt::format("f{}.txt", i), fmt::format("file number {}", i));
  const Manifest manifest = scan({folder.path()});
  TextOptions options{.rows = 1, .length = 32, .anchors = 4, .seed = 1, .epochs = 2};
  const Served one = serve_from(manifest, options);
  const auto half = static_cast<std::ptrdiff_t>(one.rows.size() / 2);
  const std::vector<Row> first(one.rows.begin(), one.rows.begin() + half),
      second(one.rows.begin() + half, one.rows.end());
  EXPECT_NE(first, second);
  EXPECT_EQ(one.batches[first.size() - 1].position.epoch, 1u);
  EXPECT_EQ(one.batches[first.size() - 1].position.row, 0u);
  std::set<Row> distinct(one.rows.begin(), one.rows.end());
  EXPECT_GT(distinct.size(), first.size());  // other anchors in the second epoch
  options.seed = 2;
  EXPECT_NE(serve_from(manifest, options).rows, one.rows);
}

TEST(TextSource, EndlessEpochsGoOn) {
  const TemporaryFolder folder;
  folder.write("a.txt", "some text");
  TextSource source(scan({folder.path()}), {.rows = 3, .length = 4, .anchors = 2}, encode_bytes);
  TokenBatch batch;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(source.next(batch));
    ASSERT_EQ(batch.rows, 3u);
  }
  EXPECT_EQ(batch.position.rng_counter, 300u);
  EXPECT_EQ(batch.position.epoch, 150u);  // "some" and " tex" a pass; "t" is dropped
}

TEST(TextSource, EndsWhereNoDocumentGivesARow) {
  const TemporaryFolder folder;
  folder.write("a.txt", "xy");
  TextSource source(scan({folder.path()}), {}, encode_bytes);
  TokenBatch batch;
  EXPECT_FALSE(source.next(batch));
  TextSource nothing(Manifest{}, {}, encode_bytes);
  EXPECT_FALSE(nothing.next(batch));
}

TEST(TextSource, CountsWhatItFound) {
  const TemporaryFolder folder;
  folder.write("a.txt", "caf\xc3\xa9 \xff\xfe!");
  folder.write("b.jsonl", "{\"text\": \"good\"}\nbad line\n");
  TextSource source(scan({folder.path()}), {.length = 8, .epochs = 1}, encode_bytes);
  for (TokenBatch batch; source.next(batch);) {
  }
  const TextCounts counts = source.counts();
  EXPECT_EQ(counts.files, 2u);
  EXPECT_EQ(counts.pieces, 2u);
  EXPECT_EQ(counts.bytes, 9u + 26u);
  EXPECT_EQ(counts.invalid_utf8_bytes, 2u);
  EXPECT_EQ(counts.plain_json_lines, 1u);
  EXPECT_EQ(counts.dropped_rows, 1u);  // the ninth byte of a.txt
}

// A position of a manifest to which files were then appended: its epoch ends as it would have, the
// next ones hold the new files.
TEST(TextSource, AppendedFilesJoinAtTheNextEpoch) {
  EXPECT_TRUE(rc::check([] {
    const RandomFolder data;
    TextOptions options = random_options();
    options.rows = 1;
    const Served before = serve_from(data.manifest, options);
    RC_PRE(!before.batches.empty());
    data.folder.write("appended.txt", "@@@@@@@@");
    data.folder.write("0.txt", "@@@@@@@@");
    const Manifest grown = append(data.manifest, scan({data.folder.path()}));

    const std::size_t stop = *rc::gen::inRange<std::size_t>(0, before.batches.size());
    const Position start = before.batches[stop].position;
    ++options.epochs;
    const Served after = serve_from(grown, options, start);
    const std::size_t a_epoch = before.rows.size() / (options.epochs - 1);
    const std::size_t rest_of_epoch = (start.epoch + 1) * a_epoch - (stop + 1);
    for (std::size_t i = 0; i < after.rows.size(); ++i) {
      const bool appended = after.rows[i].tokens[0] == '@';
      if (i < rest_of_epoch && stop + 1 + i < before.rows.size())
        RC_ASSERT(after.rows[i] == before.rows[stop + 1 + i]);
      if (i < rest_of_epoch) RC_ASSERT(!appended);
    }
    const auto later =
        std::count_if(after.rows.begin() + static_cast<std::ptrdiff_t>(rest_of_epoch),
                      after.rows.end(), [](const Row& row) { return row.tokens[0] == '@'; });
    RC_ASSERT((later > 0) == (start.epoch + 1 < options.epochs));
  }));
}

TEST(TextSource, RefusesAPositionOfOtherData) {
  const TemporaryFolder folder;
  folder.write("a.txt", "some text");
  TextSource source(scan({folder.path()}), {}, encode_bytes);
  EXPECT_THROW(source.seek({.manifest = "another"}), Error);
  const std::string id = scan({folder.path()}).id();
  EXPECT_THROW(source.seek({.manifest = id, .shard = 7}), Error);
  EXPECT_THROW(source.seek({.manifest = id, .carry_tokens = 1}), Error);
  TokenBatch batch;
  ASSERT_TRUE(source.next(batch));
  EXPECT_EQ(batch.position.batch, 1u) << "a seek that throws changes nothing";
  source.seek({.manifest = id, .row = 99});
  EXPECT_THROW(source.next(batch), Error);
  EXPECT_THROW(TextSource(Manifest{}, {.length = 2}, encode_bytes), Error);
  EXPECT_THROW(TextSource(Manifest{}, {.rows = 0}, encode_bytes), Error);
  EXPECT_THROW(TextSource(Manifest{}, {.anchors = 0}, encode_bytes), Error);
}

// A single line of 24 MiB never reaches the tokenizer in more than 1 MiB.
TEST(TextSource, AHugeLineIsReadInBoundedPieces) {
  const TemporaryFolder folder;
  folder.write("line.txt", std::string(24 << 20, 'x'));
  std::size_t longest = 0, all = 0;
  TextSource source(scan({folder.path()}), {.rows = 64, .length = 4096, .anchors = 1, .epochs = 1},
                    [&](std::string_view bytes) {
                      longest = std::max(longest, bytes.size());
                      all += bytes.size();
                      return Tokens(bytes.size() / 4, 1);
                    });
  std::uint64_t tokens = 0;
  for (TokenBatch batch; source.next(batch);) tokens += batch.token_count();
  EXPECT_EQ(longest, std::size_t{1} << 20);
  EXPECT_EQ(all, std::size_t{24} << 20);
  EXPECT_EQ(tokens, all / 4);
}

}  // namespace
}  // namespace headrace
