#include "headrace/error.h"

#include <gtest/gtest.h>

#include <set>

namespace headrace {
namespace {

constexpr ErrorCode kCodes[] = {ErrorCode::usage,    ErrorCode::bad_input, ErrorCode::io,
                                ErrorCode::resource, ErrorCode::cancelled, ErrorCode::hang,
                                ErrorCode::internal};

TEST(Error, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const ErrorCode code : kCodes) names.insert(to_string(code));
  EXPECT_EQ(names.size(), std::size(kCodes));
  EXPECT_FALSE(names.contains("unknown"));
}

// What scripts test for: 2 is the user's to mend, 130 is Ctrl-C, 1 is everything else.
TEST(Error, ExitStatusTellsInputFromFailure) {
  for (const ErrorCode code : kCodes) {
    const bool input = code == ErrorCode::usage || code == ErrorCode::bad_input;
    EXPECT_EQ(Error(code, "").exit_status(), input                          ? 2
                                             : code == ErrorCode::cancelled ? 130
                                                                            : 1)
        << to_string(code);
  }
}

TEST(Error, ContextGoesBeforeTheMessageAndKeepsTheCode) {
  try {
    try {
      fail(ErrorCode::bad_input, "{} bytes, not {}", 3, 4);
    } catch (const Error& error) {
      throw error.in("shard.txt").in("stage load, step 7");
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_STREQ(error.what(), "stage load, step 7: shard.txt: 3 bytes, not 4");
  }
}

}  // namespace
}  // namespace headrace
