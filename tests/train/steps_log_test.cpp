#include "train/steps_log.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "headrace/error.h"
#include "temporary_folder.h"
#include "train/checkpoint.h"
#include "train/dflash_trainer.h"
#include "train/traced_child.h"

namespace headrace {
namespace {

using testing::TemporaryFolder;

// The hashes of the rows from which a checkpoint with these bytes descends (docs/files.md).
std::vector<std::string> lineage(const std::string& log, std::uint64_t end) {
  std::vector<std::string> rows;
  while (end > 0) {
    const std::size_t before = log.substr(0, end - 1).rfind('\n');
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    const auto line = nlohmann::json::parse(log.substr(begin, end - begin));
    if (line.contains("step")) rows.push_back(line.at("rows_sha256"));
    end = line.contains("step") ? begin : line.at("byte").get<std::uint64_t>();
  }
  std::ranges::reverse(rows);
  return rows;
}

StepLog step_log(std::uint64_t completed, const std::string& rows) {
  StepLog log{.step = completed - 1};
  log.rows_sha256 = rows;
  return log;
}

// A checkpoint, as far as the log is concerned.
struct Saved {
  std::vector<std::string> rows;  // of all its steps
  std::uint64_t bytes = 0;
};

// Runs that are killed anywhere, also inside a line, and go on from any checkpoint that there is:
// what a checkpoint descends from is always told, and the log grows behind the checkpoint.
RC_GTEST_PROP(StepsLog, TellsTheRowsBehindEveryCheckpoint, ()) {
  const TemporaryFolder folder;
  std::vector<Saved> saved;
  std::optional<StepsLog> log;
  int name = 0;
  const auto runs = *rc::gen::inRange(1, 6);
  for (int run = 0; run < runs; ++run) {
    log.reset();
    log.emplace(folder.path());
    std::vector<std::string> rows;
    if (saved.empty()) {
      log->begin();
    } else {
      const Saved& from = *rc::gen::elementOf(saved);
      rows = from.rows;
      RC_ASSERT(log->go_on_in_place(rows.size(), from.bytes));
    }
    const auto steps = *rc::gen::inRange(0, 8);
    for (int i = 0; i < steps; ++i) {
      rows.push_back(std::to_string(name++));
      log->append(step_log(rows.size(), rows.back()));
      if (*rc::gen::inRange(0, 3) == 0) saved.push_back({rows, log->sync()});
    }
    log.reset();
    if (*rc::gen::arbitrary<bool>())
      std::ofstream(folder / "steps.jsonl", std::ios::app)
          << std::string(*rc::gen::inRange<std::size_t>(1, 9000), '\0');
    for (const Saved& checkpoint : saved)
      RC_ASSERT(lineage(folder.read("steps.jsonl"), checkpoint.bytes) == checkpoint.rows);
  }
}

TEST(StepsLog, NothingIsCreatedBeforeTheRunBegins) {
  const TemporaryFolder folder;
  {
    StepsLog log(folder / "out");
    EXPECT_EQ(log.sync(), 0u);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(StepsLog, ARunThatGoesOnElsewhereDescendsFromNothing) {
  const TemporaryFolder folder;
  StepsLog log(folder / "out");
  log.begin(60);
  log.append(step_log(61, "a"));
  EXPECT_EQ(lineage(folder.read("out/steps.jsonl"), log.sync()), std::vector<std::string>{"a"});
}

TEST(StepsLog, AnotherRunsLogIsNotTakenForThisOnes) {
  const TemporaryFolder folder;
  std::uint64_t bytes = 0;
  {
    StepsLog log(folder.path());
    log.begin();
    log.append(step_log(1, "a"));
    bytes = log.sync();
  }
  for (const auto& [step, at] : {std::pair<std::uint64_t, std::uint64_t>{2, bytes},
                                 {1, bytes - 1},
                                 {1, bytes + 1},
                                 {1, 0}}) {
    StepsLog log(folder.path());
    EXPECT_FALSE(log.go_on_in_place(step, at)) << step << " at " << at;
  }
  StepsLog log(folder.path());
  EXPECT_TRUE(log.go_on_in_place(1, bytes));
}

TEST(StepsLog, OneRunAtATimeWritesToAFolder) {
  const TemporaryFolder folder;
  StepsLog first(folder.path()), second(folder.path());
  first.begin();
  try {
    second.begin();
    FAIL() << "two runs write to one folder";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource);
    EXPECT_NE(std::string(error.what()).find(folder.path()), std::string::npos);
  }
}

// Both looked into the folder while it was empty; the first has trained and gone before the second
// begins.
TEST(StepsLog, WhatARunLeftMeanwhileIsNotWipedByTheNext) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  StepsLog second(out);
  {
    StepsLog first(out);
    first.begin();
    first.append(step_log(1, "a"));
    write_checkpoint(out, {.step = 1, .target_sha256 = std::string(64, 'a')});
  }
  const std::string before = folder.read("out/steps.jsonl");
  try {
    second.begin();
    FAIL() << "a finished run was wiped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource);
    EXPECT_NE(std::string(error.what()).find(out), std::string::npos);
  }
  EXPECT_EQ(folder.read("out/steps.jsonl"), before);
  EXPECT_EQ(newest_step(out), "step-1");
}

// A child whose system calls may fail; 0 where `body` holds.
int with_failing_calls(const std::function<bool(StepsLog&)>& body, const std::string& out,
                       const std::function<int(const testing::SystemCall&)>& before) {
  return testing::run_traced(
      [&] {
        StepsLog log(out);
        log.begin();
        return body(log) ? 0 : 1;
      },
      before);
}

bool refused(const std::function<void()>& action) {
  try {
    action();
    return false;
  } catch (const Error& error) {
    return error.code() == ErrorCode::io;
  }
}

// The system reports a failed flush once, and what it could not write is then lost.
TEST(StepsLog, AFlushThatFailedIsNotTakenForDoneTheNextTime) {
  const TemporaryFolder folder;
  int flushes = 0;
  const int status = with_failing_calls(
      [](StepsLog& log) {
        log.append(step_log(1, "a"));
        const bool once = refused([&] { log.sync(); });
        return once && refused([&] { log.sync(); });
      },
      folder.path(),
      [&](const testing::SystemCall& call) {
        return call.number() == SYS_fdatasync && flushes++ == 0 ? EIO : testing::kGoOn;
      });
  if (status == testing::kUntraceable) GTEST_SKIP() << "the system forbids tracing";
  EXPECT_EQ(status, 0);
}

// A limit on the size of files cuts a line, and the disk does not take that back.
TEST(StepsLog, ALineGoesOverWhatIsLeftOfTheOneBefore) {
  const TemporaryFolder folder;
  int shortened = 0;
  const int status = with_failing_calls(
      [](StepsLog& log) {
        log.append(step_log(1, "a"));
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit small{log.sync() + 20, RLIM_INFINITY}, none{RLIM_INFINITY, RLIM_INFINITY};
        ::setrlimit(RLIMIT_FSIZE, &small);
        const bool full = refused([&] { log.append(step_log(2, "b")); });
        ::setrlimit(RLIMIT_FSIZE, &none);
        log.append(step_log(2, "b"));
        return full;
      },
      folder.path(),
      [&](const testing::SystemCall& call) {
        return call.number() == SYS_ftruncate && shortened++ > 0 ? EIO : testing::kGoOn;
      });
  if (status == testing::kUntraceable) GTEST_SKIP() << "the system forbids tracing";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(shortened, 2);
  const std::string text = folder.read("steps.jsonl");
  EXPECT_EQ(lineage(text, text.size()), (std::vector<std::string>{"a", "b"}));
}

// A limit on the size of files stands for a full disk.
TEST(StepsLog, AFullDiskIsAnErrorAndLeavesWholeLines) {
  const TemporaryFolder folder;
  StepsLog log(folder.path());
  log.begin();
  log.append(step_log(1, "a"));
  const std::string before = folder.read("steps.jsonl");
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{before.size() + 20, limit.rlim_max};
  const auto signal = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    log.append(step_log(2, "b"));
  } catch (const Error& error) {
    message = error.what();
    EXPECT_EQ(error.code(), ErrorCode::io);
  }
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, signal);
  EXPECT_NE(message.find(folder / "steps.jsonl"), std::string::npos) << message;
  EXPECT_EQ(folder.read("steps.jsonl"), before);
  log.append(step_log(2, "b"));
  EXPECT_EQ(lineage(folder.read("steps.jsonl"), log.sync()), (std::vector<std::string>{"a", "b"}));
}

// Lengths, tokens and anchors all count, and so does which is which.
TEST(StepsLog, TheHashTellsRowsApart) {
  const auto hash = [](const TokenBatch& batch) {
    Sha256 sha;
    add_rows(sha, batch);
    return sha.hex();
  };
  const TokenBatch batch{.rows = 1,
                         .length = 4,
                         .anchors_per_row = 2,
                         .tokens = {5, 6, 7, 0},
                         .row_lengths = {3},
                         .anchors = {1, -1}};
  TokenBatch other = batch;
  EXPECT_EQ(hash(other), hash(batch));
  other.tokens[2] = 8;
  EXPECT_NE(hash(other), hash(batch));
  other = batch;
  other.anchors[1] = 2;
  EXPECT_NE(hash(other), hash(batch));
  other = batch;
  other.row_lengths[0] = 4;
  EXPECT_NE(hash(other), hash(batch));
}

}  // namespace
}  // namespace headrace
