#include "headrace/sha256.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "headrace/error.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

// The examples of FIPS 180-2, appendix B.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWholeAndTheObjectStartsAnew) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& pieces) {
    Sha256 sha;
    sha.update("left over from before").hex();
    std::string whole;
    for (const std::string& piece : pieces) {
      sha.update(piece);
      whole += piece;
    }
    RC_ASSERT(sha.hex() == sha256_hex(whole));
  }));
}

TEST(Sha256, AFileIsItsBytesAndAnAbsentOneIsNamed) {
  const testing::TemporaryFolder folder;
  const std::string bytes((1 << 20) + 7, '\0');  // more than one read
  folder.write("zeros", bytes);
  EXPECT_EQ(sha256_file(folder / "zeros"), sha256_hex(bytes));
  for (const std::string& bad : {folder / "absent", folder.path(), std::string("/dev/zero")}) {
    try {
      sha256_file(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      EXPECT_EQ(std::string(error.what()).find(bad), 0u) << error.what();
    }
  }
}

}  // namespace
}  // namespace headrace
