#include "train/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "headrace/error.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

CheckpointContent content_of(std::uint64_t step, const std::vector<float>& weights) {
  const auto* data = reinterpret_cast<const std::byte*>(weights.data());
  const SafeTensor tensor{"fc.weight",
                          "F32",
                          {static_cast<std::int64_t>(weights.size())},
                          data,
                          weights.size() * sizeof(float)};
  return {step, {{"block_size", 8}}, {{"step", step}}, {tensor}, {tensor}, std::string(64, 'a')};
}

void flip_byte(const fs::path& path, std::int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
}

struct Warnings {
  std::vector<std::string> lines;
  std::function<void(const std::string&)> take() {
    return [this](const std::string& line) { lines.push_back(line); };
  }
};

TEST(Checkpoint, ComesBackAsItWas) {
  const TemporaryFolder folder;
  const std::vector<float> weights{1.5f, -2, 3};
  write_checkpoint(folder.path(), content_of(7, weights));
  Warnings warnings;
  const CheckpointFiles files = open_checkpoint(folder.path(), warnings.take());
  EXPECT_EQ(files.step, 7u);
  EXPECT_EQ(files.state.at("step"), 7);
  EXPECT_EQ(files.target_sha256, std::string(64, 'a'));
  const SafeTensor& tensor = files.model.tensor("fc.weight");
  EXPECT_EQ(std::memcmp(tensor.data, weights.data(), tensor.bytes), 0);
  EXPECT_TRUE(warnings.lines.empty());
  EXPECT_EQ(open_checkpoint(folder / "step-7", warnings.take()).step, 7u);
}

TEST(Checkpoint, KeepsTheLastTwoAndNamesTheNewest) {
  const TemporaryFolder folder;
  for (const std::uint64_t step : {3, 9, 27, 81})
    write_checkpoint(folder.path(), content_of(step, {1}));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"step-27", "step-81", "latest"}));
  std::string latest;
  std::getline(std::ifstream(folder / "latest"), latest);
  EXPECT_EQ(latest, "step-81");
}

// A flipped byte anywhere in any file: the older one is used and the damaged one named; asked for
// directly it is refused.
TEST(Checkpoint, DamageIsFoundInEveryFile) {
  for (const std::string file :
       {"config.json", "model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST"}) {
    const TemporaryFolder folder;
    write_checkpoint(folder.path(), content_of(1, {1, 2, 3}));
    write_checkpoint(folder.path(), content_of(2, {4, 5, 6}));
    flip_byte(folder / ("step-2/" + file), 5);
    Warnings warnings;
    EXPECT_EQ(open_checkpoint(folder.path(), warnings.take()).step, 1u) << file;
    ASSERT_EQ(warnings.lines.size(), 1u) << file;
    EXPECT_NE(warnings.lines[0].find("step-2"), std::string::npos);
    EXPECT_THROW(open_checkpoint(folder / "step-2", warnings.take()), Error) << file;
  }
}

// Every byte of what a checkpoint holds is under a checksum, those of the checksums included.
TEST(Checkpoint, AFlippedByteAnywhereIsFound) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), content_of(1, {1, 2, 3}));
  Warnings warnings;
  for (const std::string file :
       {"config.json", "model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST"}) {
    const fs::path path = folder / ("step-1/" + file);
    for (std::uintmax_t at = 0; at < fs::file_size(path); ++at) {
      flip_byte(path, static_cast<std::int64_t>(at));
      EXPECT_THROW(open_checkpoint(folder / "step-1", warnings.take()), Error) << file << at;
      flip_byte(path, static_cast<std::int64_t>(at));
    }
    for (const std::uintmax_t size :
         {fs::file_size(path) - 1, std::uintmax_t{1}, std::uintmax_t{0}}) {
      const std::string whole = folder.read("step-1/" + file);
      fs::resize_file(path, size);
      EXPECT_THROW(open_checkpoint(folder / "step-1", warnings.take()), Error) << file << size;
      folder.write("step-1/" + file, whole);
    }
  }
  EXPECT_EQ(open_checkpoint(folder.path(), warnings.take()).step, 1u);
}

// `latest` is a hint: where it is wrong, or gone, the newest whole step is found all the same.
TEST(Checkpoint, LatestIsNotTrustedBlindly) {
  for (const std::string latest : {"", "step-7\n", "nonsense", "step-2"}) {
    const TemporaryFolder folder;
    write_checkpoint(folder.path(), content_of(1, {1}));
    write_checkpoint(folder.path(), content_of(2, {2}));
    folder.write("latest", latest);
    Warnings warnings;
    EXPECT_EQ(open_checkpoint(folder.path(), warnings.take()).step, 2u) << latest;
    fs::remove(folder / "latest");
    EXPECT_EQ(open_checkpoint(folder.path(), warnings.take()).step, 2u) << latest;
  }
}

TEST(Checkpoint, HigherStepsOfABranchThatWasLeftGo) {
  const TemporaryFolder folder;
  for (const std::uint64_t step : {5, 10, 6})
    write_checkpoint(folder.path(), content_of(step, {1}));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"step-5", "step-6", "latest"}));
  fs::remove_all(folder / "step-5");
  write_checkpoint(folder.path(), content_of(4, {1}));
  EXPECT_FALSE(fs::exists(folder / "step-6")) << "also where it is the only other one";
}

TEST(Checkpoint, UnfinishedFoldersAreNotSeen) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), content_of(1, {1}));
  fs::create_directories(folder / ".writing-step-2");
  fs::create_directories(folder / "step-x");
  Warnings warnings;
  EXPECT_EQ(open_checkpoint(folder.path(), warnings.take()).step, 1u);
}

TEST(Checkpoint, EmptyAndMissingFoldersAreRefusedByName) {
  const TemporaryFolder folder;
  Warnings warnings;
  try {
    open_checkpoint(folder.path(), warnings.take());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(e.what()).find(folder.path()), std::string::npos);
  }
  EXPECT_THROW(open_checkpoint(folder / "nowhere", warnings.take()), Error);
}

// A limit on the size of files stands for a full disk; it holds for root too.
TEST(Checkpoint, AFailedWriteLeavesTheOthersAlone) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), content_of(1, {1}));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto signal = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 16, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::vector<float> weights(1 << 16);  // four times the limit
  EXPECT_THROW(write_checkpoint(folder.path(), content_of(2, weights)), Error);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal);
  Warnings warnings;
  EXPECT_EQ(open_checkpoint(folder.path(), warnings.take()).step, 1u);
  EXPECT_TRUE(warnings.lines.empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2) << "step-1 and latest";
}

}  // namespace
}  // namespace headrace
