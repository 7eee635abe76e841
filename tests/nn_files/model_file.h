// Opening files that a test has in memory, and what they are refused for.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "gguf_writer.h"
#include "headrace/error.h"
#include "headrace/gguf.h"
#include "temporary_folder.h"

namespace headrace::testing {

inline GgufFile open_gguf(const std::string& bytes) {
  const TemporaryFolder folder;  // the mapping outlives the name
  return GgufFile::open(write_file(folder / "model.gguf", bytes));
}

// The message of the Error(bad_input) that the action ends with; anything else fails the test.
inline std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

}  // namespace headrace::testing
