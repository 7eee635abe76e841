#include "headrace/prompts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "headrace/error.h"
#include "headrace/tokenizer.h"

namespace headrace {
namespace {

TEST(Prompts, AreDistinctPrintableAndOpenEnded) {
  const auto& prompts = evaluation_prompts();
  EXPECT_EQ(std::set<std::string_view>(prompts.begin(), prompts.end()).size(), prompts.size());
  for (const std::string_view prompt : prompts) {
    EXPECT_FALSE(std::isspace(static_cast<unsigned char>(prompt.back()))) << prompt;
    EXPECT_TRUE(std::ranges::all_of(prompt, [](char c) {
      return c == '\n' || std::isprint(static_cast<unsigned char>(c));
    })) << prompt;
  }
}

TEST(Prompts, TheFirstHalfIsCodeAndTheSecondProse) {
  const auto& prompts = evaluation_prompts();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const bool code = prompts[i].find_first_of("=_\n") != std::string_view::npos ||
                      prompts[i].find("def ") != std::string_view::npos;
    EXPECT_EQ(code, i < 32) << prompts[i];
  }
}

TEST(Prompts, AreTenToFortyTokensOfTheDefaultTarget) {
  std::string path;
  try {
    path = find_model("SmolLM2-135M-Instruct.Q4_1.gguf");
  } catch (const Error&) {
    GTEST_SKIP() << "SmolLM2 is not here: make setup";
  }
  const Tokenizer tokenizer = Tokenizer::from(GgufFile::open(path));
  for (const std::string_view prompt : evaluation_prompts()) {
    const std::size_t tokens = tokenizer.encode(prompt).size();
    EXPECT_GE(tokens, 10u) << prompt;
    EXPECT_LE(tokens, 40u) << prompt;
  }
}

}  // namespace
}  // namespace headrace
