#include "data/window.h"

#include <gtest/gtest.h>

#include "headrace/error.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

// Windows go on as if the seek had not been: also the order of the epoch that was asked for in vain.
TEST(WindowSource, ASeekThatThrowsChangesNothing) {
  const testing::TemporaryFolder folder;
  for (int i = 0; i < 200; ++i) folder.write(fmt::format("{:03}.txt", i), "some text");
  const Manifest manifest = scan({folder.path()});
  const auto encode = [](std::string_view) { return std::vector<std::int32_t>(); };
  WindowSource source(manifest, {.epochs = 2}, encode),
      undisturbed(manifest, {.epochs = 2}, encode);
  int windows = 0;
  for (Window expected; undisturbed.claim(expected); expected = {}, ++windows) {
    EXPECT_THROW(source.seek({.manifest = manifest.id(), .epoch = 1, .shard = 1000}), Error);
    EXPECT_THROW(source.seek({.manifest = "another"}), Error);
    Window window;
    ASSERT_TRUE(source.claim(window));
    ASSERT_EQ(window.epoch, expected.epoch);
    ASSERT_EQ(window.first, expected.first);
    ASSERT_EQ(window.position, expected.position);
    ASSERT_EQ(window.pieces.size(), expected.pieces.size());
    for (std::size_t i = 0; i < window.pieces.size(); ++i)
      ASSERT_EQ(window.pieces[i].file, expected.pieces[i].file);
  }
  EXPECT_GT(windows, 4);
  Window none;
  EXPECT_FALSE(source.claim(none));
}

}  // namespace
}  // namespace headrace
