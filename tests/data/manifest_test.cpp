#include "headrace/manifest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>

#include "data/fingerprint.h"
#include "data/random_text.h"
#include "headrace/error.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::vector<std::string> names(const Manifest& manifest) {
  std::vector<std::string> result;
  for (const ManifestFile& file : manifest.files) result.push_back(file.relative);
  return result;
}

// The message of the Error(bad_input) that `action` throws; "" where it throws none.
template <typename Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(Scan, TakesTextAndPassesOverTheRest) {
  const TemporaryFolder folder;
  for (const char* name : {"b.py", "a.TXT", "sub/c.rst", "latest.md"}) folder.write(name, "text");
  for (const char* name :
       {".git/x.py", "site-packages/x.py", "sub/__pycache__/x.py", "node_modules/x.js", "test/x.py",
        "sub/tests/x.py", "idle_test/x.py", "x.so", "noextension"})
    folder.write(name, "text");
  folder.write("binary.txt", std::string("PK\0\1", 4));
  EXPECT_THAT(names(scan({folder.path()})), ElementsAre("a.TXT", "b.py", "latest.md", "sub/c.rst"));
}

TEST(Scan, NulIsSearchedInTheFirstEightKiBOnly) {
  const TemporaryFolder folder;
  std::string bytes(8193, 'x');
  bytes[8192] = '\0';
  folder.write("late.txt", bytes);
  bytes[8191] = '\0';
  folder.write("early.txt", bytes);
  EXPECT_THAT(names(scan({folder.path()})), ElementsAre("late.txt"));
}

TEST(Scan, NamedFilesAreTakenWhateverTheirName) {
  const TemporaryFolder folder;
  folder.write("Makefile", "all:");
  folder.write(".hidden/notes", "text");
  EXPECT_THAT(names(scan({folder / "Makefile", folder / ".hidden/notes"})),
              ElementsAre("Makefile", "notes"));
}

TEST(Scan, AFileReachedTwiceIsTakenOnce) {
  const TemporaryFolder folder;
  folder.write("sub/a.py", "text");
  EXPECT_EQ(scan({folder.path(), folder / "sub", folder / "sub/a.py"}).files.size(), 1u);
}

TEST(Scan, LinksNeverLoop) {
  const TemporaryFolder folder;
  folder.write("real.py", "text");
  std::filesystem::create_directory_symlink(folder.path(), folder / "loop");
  std::filesystem::create_symlink(folder / "self.py", folder / "self.py");
  std::filesystem::create_symlink(folder / "gone", folder / "broken.py");
  EXPECT_THAT(names(scan({folder.path()})), ElementsAre("real.py"));
}

TEST(Scan, RefusesByName) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "empty");
  folder.write("nul", std::string(1, '\0'));
  folder.write("nothing", "");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"missing", "empty", "nul", "nothing", "pipe"})
    EXPECT_THAT(refusal([&] { scan({folder / name}); }), HasSubstr(folder / name)) << name;
}

TEST(Scan, AnUnreadableFileIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const TemporaryFolder folder;
  folder.write("secret.py", "text");
  std::filesystem::permissions(folder / "secret.py", std::filesystem::perms::none);
  EXPECT_THAT(refusal([&] { scan({folder.path()}); }), HasSubstr("secret.py"));
}

TEST(Manifest, IdIsOfNamesAndBytesNotOfPlaces) {
  const TemporaryFolder one, two;
  for (const TemporaryFolder* folder : {&one, &two}) {
    folder->write("a.py", "first");
    folder->write("b.py", "second");
  }
  EXPECT_EQ(scan({one.path()}).id(), scan({two.path()}).id());
  two.write("b.py", "Second");
  EXPECT_NE(scan({one.path()}).id(), scan({two.path()}).id());
  std::filesystem::rename(one / "b.py", one / "c.py");
  two.write("b.py", "second");
  EXPECT_NE(scan({one.path()}).id(), scan({two.path()}).id());
}

// Any edit of a file's bytes, and any removal, is refused by the file's name; added files are not.
TEST(Manifest, ChangesAreNamedAndAdditionsAllowed) {
  EXPECT_TRUE(rc::check([] {
    const TemporaryFolder folder;
    const auto contents = *rc::gen::nonEmpty(
        rc::gen::container<std::vector<std::string>>(rc::gen::nonEmpty(testing::content(false))));
    const auto name = [](std::size_t i) { return fmt::format("f{}.py", i); };
    for (std::size_t i = 0; i < contents.size(); ++i) folder.write(name(i), contents[i]);
    const Manifest old = scan({folder.path()});

    folder.write("added.py", "new");
    folder.write("zz/added.py", "newer");
    const Manifest grown = scan({folder.path()});
    check_unchanged(old, grown);
    const Manifest appended = append(old, grown);
    RC_ASSERT(appended.files.size() == old.files.size() + 2);
    RC_ASSERT(std::equal(old.files.begin(), old.files.end(), appended.files.begin()));
    RC_ASSERT(appended.prefix_with(old.id()) == old.files.size());
    RC_ASSERT(appended.prefix_with(appended.id()) == appended.files.size());
    RC_ASSERT(!old.prefix_with(appended.id()));

    const std::size_t victim = *rc::gen::inRange<std::size_t>(0, contents.size());
    std::string changed = contents[victim];
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        changed[*rc::gen::inRange<std::size_t>(0, changed.size())] ^= 1;
        break;
      case 1:
        changed += 'x';
        break;
      default:
        changed.clear();
    }
    RC_PRE(changed.find('\0') == std::string::npos);
    if (*rc::gen::arbitrary<bool>()) {
      folder.write(name(victim), changed);
    } else {
      std::filesystem::remove(folder / name(victim));
    }
    const Manifest now = scan({folder.path()});
    RC_ASSERT(refusal([&] { check_unchanged(old, now); }).find(folder / name(victim)) !=
              std::string::npos);
  }));
}

TEST(Manifest, TwoArgumentsMayHoldFilesOfOneName) {
  const TemporaryFolder one, two;
  one.write("a.py", "first");
  two.write("a.py", "second");
  const Manifest old = scan({one.path(), two.path()});
  EXPECT_EQ(old.files.size(), 2u);
  check_unchanged(old, scan({two.path(), one.path()}));
  two.write("a.py", "third");
  EXPECT_THAT(refusal([&] {
                check_unchanged(old, scan({one.path(), two.path()}));
              }),
              HasSubstr("a.py"));
}

TEST(Fingerprint, LargeFilesAreSampledAndHashedWholeOnRequest) {
  const TemporaryFolder folder;
  std::string bytes(20 << 20, 'x');
  const auto take = [&](bool full) {
    folder.write("big", bytes);
    Manifest manifest{{{.path = folder / "big", .relative = "big"}}};
    fingerprint(InputFile(folder / "big"), full, manifest.files[0], /*hashed_whole=*/1 << 20);
    return manifest;
  };
  const Manifest sampled = take(false), full = take(true);
  EXPECT_THAT(sampled.files[0].sha256, HasSubstr("sampled:"));
  EXPECT_EQ(sampled.id(), full.id());
  check_unchanged(sampled, full);
  check_unchanged(full, sampled);

  bytes[100'000] = 'y';  // between two samples: only the whole hash sees it
  check_unchanged(sampled, take(false));
  EXPECT_NE(refusal([&] { check_unchanged(full, take(true)); }), "");
  bytes.back() = 'y';
  EXPECT_NE(refusal([&] { check_unchanged(sampled, take(false)); }), "");
}

TEST(Manifest, ComesBackFromJson) {
  const TemporaryFolder folder;
  folder.write("a.py", "x = 1\n");
  folder.write("b/c.txt", "text");
  const Manifest manifest = scan({folder.path()});
  const Manifest back = nlohmann::json(manifest).get<Manifest>();
  EXPECT_EQ(back.files, manifest.files);
  EXPECT_EQ(back.id(), manifest.id());
  EXPECT_THROW(nlohmann::json({{"files", {{{"path", 1}}}}}).get<Manifest>(), Error);
  for (const nlohmann::json& size :
       {nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json(true)}) {
    nlohmann::json wrong = manifest;
    wrong["files"][0]["size"] = size;
    EXPECT_THROW(wrong.get<Manifest>(), Error) << size;
  }
}

TEST(HeldOut, IsFivePercentOfTheNames) {
  int held = 0;
  for (int i = 0; i < 20'000; ++i) held += held_out(fmt::format("lib/module{}.py", i));
  EXPECT_NEAR(held, 1000, 100);  // three standard deviations are 92
}

TEST(HeldOut, NothingIsWhereNoByteWouldBeLeft) {
  std::string name = "0";
  while (!held_out(name)) name += '0';
  const ManifestFile held{.relative = name, .size = 1}, empty{.relative = "a", .size = 0},
      kept{.relative = "a", .size = 1};
  ASSERT_FALSE(held_out("a"));
  const auto held_in = [](std::vector<ManifestFile> files) { return held_out_files(files); };
  EXPECT_THAT(held_in({held}), ElementsAre(false));
  EXPECT_THAT(held_in({held, empty}), ElementsAre(false, false));
  EXPECT_THAT(held_in({held, kept}), ElementsAre(true, false));
}

}  // namespace
}  // namespace headrace
