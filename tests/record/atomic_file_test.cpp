#include "headrace/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "headrace/error.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

std::ptrdiff_t files_in(const TemporaryFolder& folder) {
  return std::distance(fs::directory_iterator(folder.path()), {});
}

TEST(AtomicFile, IsThereOnlyOnceCommitted) {
  const TemporaryFolder folder;
  folder.write("state", "old");
  AtomicFile file(folder / "state");
  const std::string bytes(1 << 20, 'x');  // more than the buffer holds
  file.write(bytes);
  EXPECT_EQ(folder.read("state"), "old");
  file.write("end");
  file.commit();
  EXPECT_EQ(folder.read("state"), bytes + "end");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, AnAbandonedOneLeavesNothing) {
  const TemporaryFolder folder;
  folder.write("state", "old");
  {
    AtomicFile known(folder / "state"), unknown(folder / "new");
    known.write(std::string(1 << 20, 'x'));
    unknown.write("x");
    EXPECT_EQ(files_in(folder), 3);
  }
  EXPECT_EQ(folder.read("state"), "old");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, ReplacesTheFileBehindALinkAndKeepsItsMode) {
  const TemporaryFolder folder;
  folder.write("real/state", "old");
  fs::permissions(folder / "real/state", fs::perms(0640));
  fs::create_symlink("real/state", folder / "second");
  fs::create_symlink("second", folder / "first");
  write_file_atomically(folder / "first", "new");
  EXPECT_EQ(folder.read("real/state"), "new");
  EXPECT_EQ(fs::status(folder / "real/state").permissions(), fs::perms(0640));
  EXPECT_TRUE(fs::is_symlink(folder / "first"));
  fs::create_symlink("real/later", folder / "dangling");
  write_file_atomically(folder / "dangling", "new");
  EXPECT_EQ(folder.read("real/later"), "new");
}

TEST(AtomicFile, WritesIntoWhatIsNoRegularFile) {
  write_file_atomically("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));

  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int reader = ::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  for (const std::string& name : {folder / "pipe", fmt::format("/proc/self/fd/{}", reader)}) {
    write_file_atomically(name, "text");
    char bytes[8] = {};
    EXPECT_EQ(::read(reader, bytes, sizeof bytes), 4);
    EXPECT_STREQ(bytes, "text");
  }
  ::close(reader);
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, ErrorsNameThePathAndLeaveNoTemporaryFile) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "taken/by a folder");
  for (const std::string& bad :
       {folder / "absent/state", std::string("/dev/full/x"), folder / "taken"}) {
    try {
      write_file_atomically(bad, "text");
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_EQ(std::string(error.what()).find(bad), 0u) << error.what();
    }
  }
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, WhatKilledProgramsLeftIsRemovedAndNothingElse) {
  const TemporaryFolder folder;
  AtomicFile unfinished(folder / "state");  // as if killed now
  for (const std::string kept : {"state", "a.tmp-x", "tmp-123456", ".tmp-123456", "b.tmp-1234567"})
    folder.write(kept, "text");
  EXPECT_EQ(files_in(folder), 6);
  remove_unfinished_files(folder.path());
  EXPECT_EQ(files_in(folder), 5);
  EXPECT_TRUE(fs::exists(folder / "state"));
  remove_unfinished_files(folder / "absent");
}

TEST(AtomicFile, FoldersAreMadeWithThoseAboveThem) {
  const TemporaryFolder folder;
  make_folders(folder / "a/b/c");
  make_folders(folder / "a/b/c");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  sync_folder(folder / "a/b/c");
  folder.write("file", "text");
  for (const auto& action : {std::function<void()>([&] { make_folders(folder / "file/d"); }),
                             std::function<void()>([&] { sync_folder(folder / "absent"); })}) {
    try {
      action();
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_EQ(std::string(error.what()).find(folder.path()), 0u) << error.what();
    }
  }
}

}  // namespace
}  // namespace headrace
