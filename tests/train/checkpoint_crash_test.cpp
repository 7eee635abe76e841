// Writing a checkpoint, interrupted at each of its system calls: killed, refused, cut from power.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "headrace/error.h"
#include "temporary_folder.h"
#include "train/checkpoint.h"
#include "train/traced_child.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using testing::kGoOn;
using testing::kKill;
using testing::SystemCall;
using testing::TemporaryFolder;

// What OUT holds before, in the order written, and the step that is then written.
struct Scenario {
  const char* name;
  std::vector<std::uint64_t> before;
  std::uint64_t step;
};
const Scenario kScenarios[] = {
    {"the first", {}, 3},
    {"a third", {1, 2}, 3},
    {"between those of a run that went on from an earlier step", {1, 4}, 3},
    {"in place of one of that name", {1, 3}, 3},
};

// Weights tell apart what was written before and what is written over it.
void write_step(const std::string& out, std::uint64_t step, float tag) {
  const std::vector<float> weights(64, static_cast<float>(step) + tag);
  const SafeTensor tensor{"fc.weight",
                          "F32",
                          {64},
                          reinterpret_cast<const std::byte*>(weights.data()),
                          weights.size() * sizeof(float)};
  write_checkpoint(
      out, {step, {{"block_size", 8}}, {{"step", step}}, {tensor}, {tensor}, std::string(64, 'a')});
}
constexpr float kOld = 0, kNew = 100;

void fill(const TemporaryFolder& folder, const Scenario& scenario) {
  for (const auto& entry : fs::directory_iterator(folder.path())) fs::remove_all(entry.path());
  for (const std::uint64_t step : scenario.before) write_step(folder.path(), step, kOld);
}

// The weight in the checkpoint that OUT gives; 0 where there is none. Nothing may be damaged.
float opened(const std::string& out) {
  try {
    const CheckpointFiles files = open_checkpoint(
        out, [](const std::string& warning) { ADD_FAILURE() << "damaged: " << warning; });
    float weight = 0;
    std::memcpy(&weight, files.model.tensor("fc.weight").data, sizeof weight);
    return weight;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("holds no checkpoint"), std::string::npos)
        << error.what();
    return 0;
  }
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

bool changes_the_disk(const SystemCall& call) {
  switch (call.number()) {
    case SYS_openat:
      return (call.value(2) & (O_CREAT | O_WRONLY | O_RDWR | O_DIRECTORY)) != 0;
    case SYS_write:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_ftruncate:
    case SYS_rename:
    case SYS_renameat2:
    case SYS_mkdir:
    case SYS_unlink:
    case SYS_unlinkat:
    case SYS_rmdir:
      return true;
    default:
      return false;
  }
}

// Part of a removal, which may be left to the next checkpoint.
bool cleans_up(const SystemCall& call) {
  return call.number() == SYS_unlink || call.number() == SYS_unlinkat ||
         call.number() == SYS_rmdir ||
         (call.number() == SYS_openat && (call.value(2) & O_DIRECTORY) != 0);
}

class CheckpointCrash : public ::testing::Test {
 protected:
  CheckpointCrash()
      : message_(static_cast<char*>(::mmap(nullptr, kMessageBytes, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~CheckpointCrash() override { ::munmap(message_, kMessageBytes); }

  // 0: written; 1: Error(io), told in message_; else what run_traced() says.
  int write_traced(std::uint64_t step, const std::function<int(const SystemCall&)>& before) {
    message_[0] = '\0';
    return testing::run_traced(
        [&] {
          try {
            write_step(folder_.path(), step, kNew);
            return 0;
          } catch (const Error& error) {
            std::strncpy(message_, error.what(), kMessageBytes - 1);
            return error.code() == ErrorCode::io ? 1 : 2;
          }
        },
        before);
  }

  static constexpr std::size_t kMessageBytes = 4096;
  TemporaryFolder folder_;
  char* message_;  // shared with the child
};

TEST_F(CheckpointCrash, KilledBeforeAnySystemCallTheOldOrTheNewOneIsThereWhole) {
  for (const Scenario& scenario : kScenarios) {
    const float fresh = static_cast<float>(scenario.step) + kNew;
    bool was_new = false;
    for (int n = 0, status = testing::kKilled; status == testing::kKilled; ++n) {
      SCOPED_TRACE(fmt::format("{}, killed before call {}", scenario.name, n));
      fill(folder_, scenario);
      const float old = opened(folder_.path());
      int count = 0;
      status = write_traced(scenario.step,
                            [&](const SystemCall&) { return count++ == n ? kKill : kGoOn; });
      if (status == testing::kUntraceable) GTEST_SKIP() << "the system forbids tracing";
      const float found = opened(folder_.path());
      EXPECT_TRUE(found == old || found == fresh) << found;
      EXPECT_TRUE(found == fresh || !was_new) << "the new one was there, and is gone";
      was_new = found == fresh;
      for (const std::string& name : names_in(folder_.path()))
        EXPECT_TRUE(!name.starts_with("step-") || opened(folder_ / name) > 0) << name;
      // The next one removes whatever was left.
      write_step(folder_.path(), 5, kNew);
      EXPECT_EQ(opened(folder_.path()), 5 + kNew);
      EXPECT_LE(names_in(folder_.path()).size(), 3u) << "latest and at most two steps";
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_TRUE(was_new) << scenario.name;
  }
}

TEST_F(CheckpointCrash, WithoutAnExchangeOfNamesTheOneResumedFromIsLeft) {
  const Scenario& scenario = kScenarios[3];
  for (int n = 0, status = testing::kKilled; status == testing::kKilled; ++n) {
    SCOPED_TRACE(n);
    fill(folder_, scenario);
    int count = 0;
    status = write_traced(scenario.step, [&](const SystemCall& call) {
      if (count++ == n) return kKill;
      return call.number() == SYS_renameat2 ? EINVAL : kGoOn;
    });
    if (status == testing::kUntraceable) GTEST_SKIP() << "the system forbids tracing";
    const float found = opened(folder_.path());
    EXPECT_TRUE(found == 1 || found == 3 || found == 3 + kNew) << found;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(opened(folder_.path()), 3 + kNew);
}

TEST_F(CheckpointCrash, AnyRefusedOperationIsAnErrorThatNamesItsPlaceAndLeavesNothingHalf) {
  for (const Scenario& scenario : kScenarios) {
    bool refused = true;
    for (int n = 0; refused; ++n) {
      SCOPED_TRACE(fmt::format("{}, operation {} refused", scenario.name, n));
      fill(folder_, scenario);
      const float old = opened(folder_.path());
      int count = 0;
      bool removal = false;
      refused = false;
      const int status = write_traced(scenario.step, [&](const SystemCall& call) {
        if (!changes_the_disk(call) || count++ != n) return kGoOn;
        refused = true;
        removal = cleans_up(call);
        return call.number() == SYS_fsync || call.number() == SYS_fdatasync ? EIO : ENOSPC;
      });
      if (status == testing::kUntraceable) GTEST_SKIP() << "the system forbids tracing";
      ASSERT_LE(status, 1) << message_;
      EXPECT_TRUE(status == 0 || std::string(message_).find(folder_.path()) != std::string::npos)
          << message_;
      const float found = opened(folder_.path());
      EXPECT_TRUE(found == old || found == static_cast<float>(scenario.step) + kNew) << found;
      EXPECT_TRUE(status == 1 || found == static_cast<float>(scenario.step) + kNew) << found;
      for (const std::string& name : names_in(folder_.path()))
        EXPECT_TRUE(removal || name == "latest" || name.starts_with("step-")) << name;
      ASSERT_FALSE(HasFailure());
    }
  }
}

// A power cut keeps what was flushed: a file's bytes by its fsync, names by that of their folder.
TEST_F(CheckpointCrash, NothingIsNamedBeforeItIsFlushed) {
  for (const Scenario& scenario : kScenarios) {
    SCOPED_TRACE(scenario.name);
    fill(folder_, scenario);
    std::set<std::string> unflushed;     // files with bytes, folders with new names
    std::set<std::string> moved_within;  // folders with renames that were not flushed
    const auto rename = [&](const std::string& from, const std::string& to) {
      for (const std::string& path : unflushed)
        EXPECT_FALSE(path == from || path.starts_with(from + "/"))
            << from << " is renamed before " << path << " is flushed";
      const std::string parent = fs::path(to).parent_path();
      if (parent == folder_.path()) {
        EXPECT_FALSE(moved_within.count(parent)) << to << " depends on a rename before it";
        // Of two removals neither depends on the other.
        if (fs::path(to).filename().string()[0] != '.') moved_within.insert(parent);
      }
      unflushed.insert(parent);
    };
    const int status = write_traced(scenario.step, [&](const SystemCall& call) {
      switch (call.number()) {
        case SYS_openat:
          if ((call.value(2) & O_CREAT) != 0)
            unflushed.insert(fs::path(call.path(1)).parent_path());
          break;
        case SYS_mkdir:
          unflushed.insert(fs::path(call.path(0)).parent_path());
          break;
        case SYS_write:
          unflushed.insert(call.file(0));
          break;
        case SYS_fsync:
          unflushed.erase(call.file(0));
          moved_within.erase(call.file(0));
          break;
        case SYS_rename:
          rename(call.path(0), call.path(1));
          break;
        case SYS_renameat2:
          if (fs::exists(call.path(3))) rename(call.path(1), call.path(3));
          break;
        default:
          break;
      }
      return kGoOn;
    });
    if (status == testing::kUntraceable) GTEST_SKIP() << "the system forbids tracing";
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace headrace
