// A TextSource that tokenises ahead: the same rows, resumed and stopped at the same place, as one
// that does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "data/served_rows.h"
#include "headrace/error.h"

namespace headrace {
namespace {

using testing::encode_bytes;
using ::testing::HasSubstr;
using testing::random_options;
using testing::RandomFolder;
using testing::Row;
using testing::rows_of;
using testing::serve_from;
using testing::Served;
using testing::TemporaryFolder;
using testing::Tokens;

std::vector<Position> positions(const Served& run) {
  std::vector<Position> result;
  for (const TokenBatch& batch : run.batches) result.push_back(batch.position);
  return result;
}

TEST(TextSourceWorkers, ChangeNothing) {
  EXPECT_TRUE(rc::check([] {
    const RandomFolder data;
    TextOptions options = random_options();
    options.workers = 0;
    const Served alone = serve_from(data.manifest, options);
    for (const std::uint64_t workers : {1, 4}) {
      options.workers = workers;
      const Served run = serve_from(data.manifest, options);
      RC_ASSERT(run.rows == alone.rows);
      RC_ASSERT(positions(run) == positions(alone));
    }
  }));
}

// 150 files of one row each and as many empty ones: three windows of 64 pieces an epoch.
struct Folder {
  TemporaryFolder folder;
  Manifest manifest;

  Folder() {
    for (int i = 0; i < 150; ++i) {
      folder.write(fmt::format("f{}.txt", i), text(i));
      folder.write(fmt::format("empty{}.txt", i), "");
    }
    manifest = scan({folder.path()});
  }
  static std::string text(int i) { return fmt::format("the text of file {:03}", i); }
};

// At every batch of three epochs, with another number of workers than before: the rest is what it
// would have been. Other pipelines lost or repeated batches at the end of an epoch (torchdata#1437,
// streaming#869), could resume in the first epoch or at its first elements only (accelerate#2016,
// datasets#7901), served the left-overs alone in the epochs after a resume (datasets#7447), failed
// at empty partitions (streaming#700), or restart from nowhere with workers (webdataset#271).
TEST(TextSourceWorkers, ResumeAtEveryBatchOfEveryEpoch) {
  const Folder data;
  TextOptions options{.rows = 7, .length = 24, .anchors = 3, .epochs = 3, .workers = 2};
  const Served whole = serve_from(data.manifest, options);
  ASSERT_EQ(whole.batches.back().position.epoch, 3u);
  for (std::size_t stop = 0; stop < whole.batches.size(); ++stop) {
    options.workers = stop % 4;
    const Served rest = serve_from(data.manifest, options, whole.batches[stop].position);
    const auto trained = static_cast<std::ptrdiff_t>(
        std::min<std::size_t>(whole.rows.size(), (stop + 1) * options.rows));
    ASSERT_EQ(rest.rows, std::vector<Row>(whole.rows.begin() + trained, whole.rows.end())) << stop;
    ASSERT_EQ(rest.batches.size(), whole.batches.size() - stop - 1);
  }
}

// TorchEasyRec PR 544: state that was set after the workers had started never reached them.
// torchrec#2327: an iterator that was used up stayed so.
TEST(TextSourceWorkers, ObeyASeekAtAnyTime) {
  const Folder data;
  const TextOptions options{.rows = 10, .length = 24, .epochs = 1, .workers = 3};
  const Served whole = serve_from(data.manifest, options);
  TextSource source(data.manifest, options, encode_bytes);
  TokenBatch batch;
  for (const std::size_t taken : {std::size_t{1}, std::size_t{8}, SIZE_MAX}) {
    for (std::size_t i = 0; i < taken && source.next(batch); ++i) {
    }
    source.seek(whole.batches[4].position);
    ASSERT_TRUE(source.next(batch));
    EXPECT_EQ(batch.position, whole.batches[5].position);
    EXPECT_EQ(batch.tokens, whole.batches[5].tokens);
  }
}

// A stop ends every wait for a window, and the next call serves what was waited for. Without workers
// no window is ready before it is asked for: each of them is such a wait.
TEST(TextSourceWorkers, AStopLosesNothing) {
  const Folder data;
  TextOptions options{.rows = 7, .length = 24, .anchors = 3, .epochs = 1};
  const Served whole = serve_from(data.manifest, options);
  std::stop_source stopped;
  stopped.request_stop();
  for (options.workers = 0; options.workers <= 2; ++options.workers) {
    TextSource source(data.manifest, options, encode_bytes);
    TokenBatch batch;
    std::uint64_t stops = 0;
    std::vector<Row> rows;
    const auto next = [&] {
      try {
        return source.next(batch, stopped.get_token());
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::cancelled);
        ++stops;
        return source.next(batch);
      }
    };
    while (next())
      for (Row& row : rows_of(batch, 0)) rows.push_back(std::move(row));
    EXPECT_EQ(rows, whole.rows);
    EXPECT_GE(stops, options.workers == 0 ? 3u : 0u);
  }
}

// The batch that would have the first row of a window that cannot be read is the one that fails,
// and all before it are served; whatever was made of the window ahead.
TEST(TextSourceWorkers, AnErrorArrivesAtItsRow) {
  for (const int broken : {3, 60, 149}) {
    const Folder data;
    const Tokens tokens = encode_bytes(Folder::text(broken));
    TextOptions options{.rows = 7, .length = 24, .epochs = 1};
    const Served whole = serve_from(data.manifest, options);
    const auto row = std::ranges::find(whole.rows, tokens, &Row::tokens);
    if (row == whole.rows.end()) continue;  // held out
    const auto first_of_window = static_cast<std::uint64_t>(row - whole.rows.begin()) / 64 * 64;
    std::filesystem::remove(data.folder / fmt::format("f{}.txt", broken));
    for (options.workers = 0; options.workers <= 3; ++options.workers) {
      TextSource source(data.manifest, options, encode_bytes);
      TokenBatch batch;
      std::uint64_t served = 0;
      try {
        while (source.next(batch)) served += batch.rows;
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr(fmt::format("f{}.txt", broken)));
      }
      EXPECT_EQ(served, first_of_window / options.rows * options.rows);
    }
  }
}

// Files that are changed while they are trained on are refused by name. No row of other bytes is
// served, none is lost, and when the files are back the run goes on.
TEST(TextSourceWorkers, ChangedFilesAreRefusedAndNothingIsSkipped) {
  for (std::uint64_t workers = 0; workers <= 2; ++workers) {
    for (const std::string changed :
         {"the", "the TEXT of file 000", "the text of file 000 grown"}) {
      const Folder data;  // six windows, of which the change comes too late for three at most
      const TextOptions options{
          .rows = 7, .length = 24, .anchors = 3, .epochs = 2, .workers = workers};
      const Served whole = serve_from(data.manifest, options);
      const auto write_all = [&](const auto& text) {
        for (int i = 0; i < 150; ++i) data.folder.write(fmt::format("f{}.txt", i), text(i));
      };

      TextSource source(data.manifest, options, encode_bytes);
      TokenBatch batch;
      ASSERT_TRUE(source.next(batch));
      std::vector<Row> rows = rows_of(batch, 0);
      const auto serve_rest = [&] {
        while (source.next(batch))
          for (Row& row : rows_of(batch, 0)) rows.push_back(std::move(row));
      };
      write_all([&](int) { return changed; });
      try {
        serve_rest();
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        EXPECT_THAT(error.what(), HasSubstr(data.folder.path()));
      }
      EXPECT_LT(rows.size(), whole.rows.size());
      write_all(Folder::text);
      serve_rest();
      EXPECT_EQ(rows, whole.rows);
    }
  }
}

// tensorflow#44176, libffcv#206: memory grew with the data. Here at most workers + 1 windows exist.
TEST(TextSourceWorkers, ReadAWindowAheadEach) {
  const Folder data;
  const std::uint64_t rows_an_epoch =
      serve_from(data.manifest, {.rows = 1, .length = 24, .epochs = 1}).rows.size();
  for (std::uint64_t workers = 0; workers <= 3; ++workers) {
    std::atomic<std::uint64_t> encoded = 0;
    TextSource source(data.manifest, {.rows = 1, .length = 24, .workers = workers},
                      [&](std::string_view bytes) {
                        ++encoded;
                        return encode_bytes(bytes);
                      });
    TokenBatch batch;
    for (std::uint64_t served = 0; served < 10 * rows_an_epoch; ++served) {
      ASSERT_TRUE(source.next(batch));
      const std::uint64_t epoch = served / rows_an_epoch, row = served % rows_an_epoch;
      const std::uint64_t begun = epoch * rows_an_epoch + row / 64 * 64;  // before its window
      ASSERT_LE(encoded, begun + (workers + 1) * 64);
    }
  }
}

TEST(TextSourceWorkers, CountWhatWasServed) {
  const TemporaryFolder folder;
  for (int i = 0; i < 300; ++i) folder.write(fmt::format("f{}.txt", i), "\xff and 7 more");
  TextSource ahead(scan({folder.path()}), {.rows = 1, .length = 11, .workers = 3}, encode_bytes);
  TextSource alone(scan({folder.path()}), {.rows = 1, .length = 11, .workers = 0}, encode_bytes);
  for (int i = 0; i < 500; ++i) {
    TokenBatch batch;
    ASSERT_TRUE(ahead.next(batch) && alone.next(batch));
    ASSERT_EQ(ahead.counts().invalid_utf8_bytes, alone.counts().invalid_utf8_bytes);
    ASSERT_EQ(ahead.counts().dropped_tokens, alone.counts().dropped_tokens);
  }
}

}  // namespace
}  // namespace headrace
