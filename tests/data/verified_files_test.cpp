#include "data/verified_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "data/fingerprint.h"
#include "data/input_file.h"
#include "headrace/error.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;
using namespace std::chrono_literals;

struct OneFile {
  TemporaryFolder folder;
  std::string path = folder / "a.txt";
  Manifest manifest;
  VerifiedFiles files;

  // A file that was written just now has no stamp in its manifest. With one it is not hashed before
  // it changes.
  enum Stamp { unstamped, stamped };
  explicit OneFile(const std::string& bytes, Stamp stamp = unstamped)
      : manifest((folder.write("a.txt", bytes), scan({folder.path()}))),
        files(stamp == stamped ? with_stamp(manifest) : manifest) {}
  static const Manifest& with_stamp(Manifest& manifest) {
    manifest.files[0].stamp = InputFile(manifest.files[0].path).stamp();
    return manifest;
  }
  std::string read() {
    std::string bytes;
    files.read(0, 0, manifest.files[0].size, bytes);
    return bytes;
  }
  std::string refusal() {
    try {
      return "read " + read();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
  }
};

// Whatever happens to a file after its first read is seen at the next one, and named.
TEST(VerifiedFiles, AChangedFileIsRefusedByName) {
  OneFile one("some text");
  EXPECT_EQ(one.read(), "some text");
  for (const char* changed : {"same size", "longer than it was", "short", ""}) {
    one.folder.write("a.txt", changed);
    EXPECT_THAT(one.refusal(), HasSubstr(one.path)) << changed;
    one.folder.write("a.txt", "some text");
    EXPECT_EQ(one.read(), "some text") << "restored";
  }
  std::filesystem::remove(one.path);
  EXPECT_THAT(one.refusal(), HasSubstr(one.path));
}

// The time of modification can be set back, as cp -p and rsync -t do.
TEST(VerifiedFiles, AChangeWithItsTimeSetBackIsSeen) {
  OneFile one("some text", OneFile::stamped);
  EXPECT_EQ(one.read(), "some text");
  std::this_thread::sleep_for(20ms);  // more than a tick of the clock that files are stamped with
  const auto before = std::filesystem::last_write_time(one.path);
  one.folder.write("a.txt", "same size");
  std::filesystem::last_write_time(one.path, before);
  EXPECT_THAT(one.refusal(), HasSubstr("was changed"));
}

// What is only touched, moved or copied is still the file.
TEST(VerifiedFiles, ATouchedFileIsReadAllTheSame) {
  OneFile one("some text");
  EXPECT_EQ(one.read(), "some text");
  ::chmod(one.path.c_str(), 0600);
  EXPECT_EQ(one.read(), "some text");
  std::filesystem::copy_file(one.path, one.folder / "copy");
  std::filesystem::rename(one.folder / "copy", one.path);
  EXPECT_EQ(one.read(), "some text");
}

// A file under the stamp that it was hashed with is not hashed again. A stamp vouches for a file
// only if a change would have altered it: one that was written to in this very moment has none.
TEST(VerifiedFiles, AStampStandsForTheHash) {
  const std::string program = "/bin/sh";  // written long ago
  ManifestFile old{.path = program, .relative = "program"};
  fingerprint(InputFile(program), /*verify_full=*/false, old);
  EXPECT_EQ(old.stamp, InputFile(program).stamp());
  old.sha256 = "of something else";
  Manifest manifest{{old}};
  std::string bytes;
  VerifiedFiles(manifest).read(0, 1, 3, bytes);
  EXPECT_EQ(bytes, "ELF");
  manifest.files[0].stamp = {};
  EXPECT_THROW(VerifiedFiles(manifest).read(0, 1, 3, bytes), Error);

  const TemporaryFolder folder;
  folder.write("fresh.txt", "text");
  EXPECT_EQ(scan({folder.path()}).files[0].stamp, FileStamp{});
}

// A file that changes while it is read, at any moment: readers get its right bytes or an error.
TEST(VerifiedFiles, ReadersNeverGetOtherBytes) {
  const std::string right(100'000, 'a'), wrong(100'000, 'b');
  for (int round = 0; round < 20; ++round) {
    OneFile one(right);
    std::atomic<bool> done = false;
    std::jthread writer([&] {
      one.folder.write("a.txt", wrong);
      done = true;
    });
    for (int last = 0; last < 2; last += done) {
      const std::string got = one.refusal();
      EXPECT_TRUE(got == "read " + right || got.find(one.path) == 0);
    }
    EXPECT_THAT(one.refusal(), HasSubstr(one.path));
  }
}

}  // namespace
}  // namespace headrace
