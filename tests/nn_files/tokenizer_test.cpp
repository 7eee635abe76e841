#include "headrace/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "nn_files/model_file.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::open_gguf;
using testing::refusal;
using testing::small_vocabulary;
using testing::Vocabulary;

Tokenizer small(const Vocabulary& vocabulary = small_vocabulary(),
                const std::string& pre = "smollm") {
  GgufWriter writer;
  testing::add_tokenizer(writer, vocabulary, pre);
  return Tokenizer::from(open_gguf(writer.bytes()));
}

// The tokenizer of the real model; nothing where it is not installed.
const Tokenizer* smollm2() {
  static const auto tokenizer = []() -> std::unique_ptr<Tokenizer> {
    ::setenv("HEADRACE_VENV", HEADRACE_VENV, 0);
    try {
      const std::string path = find_model("SmolLM2-135M-Instruct.Q4_1.gguf");
      return std::make_unique<Tokenizer>(Tokenizer::from(GgufFile::open(path)));
    } catch (const Error&) {
      return nullptr;
    }
  }();
  return tokenizer.get();
}

#define SMOLLM2_OR_SKIP() \
  smollm2();              \
  if (smollm2() == nullptr) GTEST_SKIP() << "SmolLM2 is not installed: run `make setup`"

// Byte-pair merging by its definition: as long as any pair merges, merge the leftmost of those with
// the lowest rank.
std::vector<std::string> naive_merges(const Vocabulary& vocabulary, const std::string& word) {
  const auto alphabet = testing::byte_alphabet();
  std::vector<std::string> parts;
  for (const char c : word) parts.push_back(alphabet[static_cast<unsigned char>(c)]);
  for (;;) {
    std::size_t best = vocabulary.merges.size(), where = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = std::find(vocabulary.merges.begin(), vocabulary.merges.begin() + best,
                                   parts[i] + " " + parts[i + 1]);
      const auto rank = static_cast<std::size_t>(found - vocabulary.merges.begin());
      if (rank < best) best = rank, where = i;
    }
    if (best == vocabulary.merges.size()) return parts;
    parts[where] += parts[where + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

// Adds random merges of tokens that are there to the small vocabulary.
Vocabulary random_vocabulary(const std::string& letters, int merges) {
  Vocabulary vocabulary = small_vocabulary();
  vocabulary.merges.clear();
  std::vector<std::string> parts;
  for (const char c : letters) parts.emplace_back(1, c);
  for (int i = 0; i < merges; ++i) {
    const auto left = *rc::gen::elementOf(parts), right = *rc::gen::elementOf(parts);
    if (std::count(vocabulary.tokens.begin(), vocabulary.tokens.end(), left + right) > 0) continue;
    vocabulary.merges.push_back(left + " " + right);
    vocabulary.tokens.push_back(left + right);
    vocabulary.types.push_back(1);
    parts.push_back(left + right);
  }
  if (vocabulary.merges.empty()) vocabulary.merges = {"h e"};
  return vocabulary;
}

TEST(Tokenizer, MergesAsByDefinition) {
  EXPECT_TRUE(rc::check([] {
    const Vocabulary vocabulary = random_vocabulary("abc", *rc::gen::inRange(1, 40));
    const auto word = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("abc")));
    const Tokenizer tokenizer = small(vocabulary);
    std::vector<std::int32_t> expected;
    for (const std::string& part : naive_merges(vocabulary, word))
      expected.push_back(tokenizer.token(part));
    RC_ASSERT(tokenizer.encode(word) == expected);
    RC_ASSERT(tokenizer.encode(word) == expected);  // from the cache of words
  }));
}

TEST(Tokenizer, AnyBytesComeBack) {
  const Tokenizer smollm = small(), gpt2 = small(small_vocabulary(), "gpt-2");
  EXPECT_TRUE(rc::check([&] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::oneOf(rc::gen::arbitrary<char>(),
                       rc::gen::elementOf(std::string(" \n\t'0az\xc3\xa9\xe2\x80\x83"))));
    RC_ASSERT(smollm.decode(smollm.encode(text)) == text);
    RC_ASSERT(gpt2.decode(gpt2.encode(text)) == text);
  }));
}

TEST(Tokenizer, BytesThatAreNoUtf8StandByThemselves) {
  const Tokenizer tokenizer = small();
  auto parts = [&](const std::string& text) {
    std::vector<std::string> out;
    for (const std::int32_t id : tokenizer.encode(text)) out.emplace_back(tokenizer.bytes_of(id));
    return out;
  };
  EXPECT_THAT(parts("the\xff"
                    "the"),
              ElementsAre("t", "he", "\xff", "t", "he"));
  EXPECT_THAT(parts("  \xff"), ElementsAre("  ", "\xff"));
  EXPECT_THAT(parts(" the\xe2\x82"), ElementsAre(" the", "\xe2", "\x82"));
}

TEST(Tokenizer, GoldenIds) {
  const Tokenizer* tokenizer = SMOLLM2_OR_SKIP();
  std::ifstream file(HEADRACE_SOURCE_DIR "/tests/golden/smollm2_tokens.json");
  const auto golden = nlohmann::json::parse(file);
  ASSERT_GE(golden.size(), 200u);
  for (const auto& entry : golden) {
    const auto text = entry["text"].get<std::string>();
    EXPECT_EQ(tokenizer->encode(text), entry["plain"].get<std::vector<std::int32_t>>()) << text;
    EXPECT_EQ(tokenizer->encode(text, true), entry["special"].get<std::vector<std::int32_t>>())
        << text;
  }
}

TEST(Tokenizer, SmolLm2) {
  const Tokenizer* tokenizer = SMOLLM2_OR_SKIP();
  EXPECT_EQ(tokenizer->size(), 49152);
  EXPECT_EQ(tokenizer->mask_token(), 16);
  EXPECT_EQ(tokenizer->end_of_text(), 2);
  EXPECT_TRUE(tokenizer->is_end(0) && tokenizer->is_end(2));
  EXPECT_FALSE(tokenizer->is_end(1) || tokenizer->is_end(16));
  int missing = 0;
  for (int b = 0; b < 256; ++b) missing += !tokenizer->expresses(static_cast<unsigned char>(b));
  EXPECT_EQ(missing, 21);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\x04"
                                                "b")),
            "ab");
  EXPECT_EQ(tokenizer->chat_prompt("Hi"),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Tokenizer, ControlTokensOnlyWhereAskedFor) {
  const Tokenizer tokenizer = small();
  EXPECT_THAT(tokenizer.encode("<|im_end|>", true), ElementsAre(2));
  EXPECT_GT(tokenizer.encode("<|im_end|>").size(), 5u);
  EXPECT_EQ(tokenizer.decode({0, 3}), "<|endoftext|><|mask|>");
  EXPECT_TRUE(tokenizer.is_control(3));
  EXPECT_FALSE(tokenizer.is_control(4));
  EXPECT_EQ(tokenizer.mask_token(), 3);
  EXPECT_EQ(tokenizer.token("Ġthe"), 4 + 256 + 7);
  EXPECT_EQ(tokenizer.token("nowhere"), -1);
  EXPECT_THAT(refusal([&] { tokenizer.decode({288}); }), HasSubstr("no token 288"));
}

TEST(Tokenizer, TheLongestControlTokenWins) {
  Vocabulary vocabulary = small_vocabulary();
  vocabulary.tokens.push_back("<|mask|><|mask|>");
  vocabulary.types.push_back(3);
  EXPECT_THAT(small(vocabulary).encode("<|mask|><|mask|><|mask|>", true), ElementsAre(288, 3));
}

TEST(Tokenizer, ChatTemplates) {
  const auto prompt = [](const std::string& chat_template) {
    GgufWriter writer;
    writer.add("tokenizer.ggml.model", "gpt2");
    writer.add("tokenizer.ggml.pre", "smollm");
    writer.add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab"});
    writer.add("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
    writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{0});
    if (!chat_template.empty()) writer.add("tokenizer.chat_template", chat_template);
    const Tokenizer tokenizer = Tokenizer::from(open_gguf(writer.bytes()));
    EXPECT_EQ(tokenizer.has_chat_template(), !chat_template.empty());
    return tokenizer.chat_prompt("Hi");
  };
  EXPECT_EQ(prompt(testing::kChatMl), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(prompt("{{ '<|im_start|>system\\n' + x + '<|im_end|>' }}{{ "
                   "'<|im_start|>system\\nBe kind.<|im_end|>\\n' }}"),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_THAT(refusal([&] { prompt("<|start_header_id|>"); }),
              HasSubstr("is Llama 3; only ChatML"));
  EXPECT_THAT(refusal([&] { prompt("[INST] x [/INST]"); }), HasSubstr("Llama 2 or Mistral"));
  EXPECT_THAT(refusal([&] { prompt("hm"); }), HasSubstr("an unknown format"));
  EXPECT_THAT(refusal([&] { prompt(""); }), HasSubstr("no chat template"));
}

TEST(Tokenizer, RefusesWhatItCannotUse) {
  const auto refused = [](const std::function<void(Vocabulary&)>& change,
                          const char* pre = "smollm") {
    Vocabulary vocabulary = small_vocabulary();
    change(vocabulary);
    return refusal([&] { small(vocabulary, pre); });
  };
  EXPECT_THAT(
      refused([](Vocabulary&) {}, "llama-bpe"),
      HasSubstr("pre-tokenizer \"llama-bpe\" is not supported; supported are smollm, gpt-2"));
  EXPECT_THAT(refused([](Vocabulary& v) { v.merges.clear(); }), HasSubstr("no merges"));
  EXPECT_THAT(refused([](Vocabulary& v) { v.merges[1] = "q z"; }), HasSubstr("merge 1, \"q z\""));
  EXPECT_THAT(refused([](Vocabulary& v) { v.merges[1] = "he"; }), HasSubstr("merge 1, \"he\""));
  EXPECT_THAT(refused([](Vocabulary& v) { v.tokens[9] = v.tokens[8]; }),
              HasSubstr("tokens 8 and 9"));
  EXPECT_THAT(refused([](Vocabulary& v) { v.tokens[9] = ""; }), HasSubstr("token 9 is empty"));
  EXPECT_THAT(refused([](Vocabulary& v) { v.types.pop_back(); }), HasSubstr("token_type"));
  EXPECT_THAT(refused([](Vocabulary& v) {
                v.tokens.resize(2);
                v.types.resize(2);
                v.merges = {"<|im_start|> <|im_start|>"};
              }),
              HasSubstr("merge 0"));
  GgufWriter writer;
  EXPECT_THAT(refusal([&] { Tokenizer::from(open_gguf(writer.bytes())); }),
              HasSubstr("tokenizer.ggml.model is missing"));
  writer.add("tokenizer.ggml.model", "llama");
  EXPECT_THAT(refusal([&] { Tokenizer::from(open_gguf(writer.bytes())); }),
              HasSubstr("tokenizer \"llama\" is not supported"));
}

TEST(Tokenizer, LongWordsTakeTimeInProportion) {
  const Tokenizer tokenizer = small();
  const auto seconds = [&](const std::string& text) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  // 3 MiB: longer than the longest word that is merged as one. Quadratic merging would take hours.
  std::string letters, blanks(3 << 20, ' '), invalid(3 << 20, '\xff');
  while (letters.size() < 3 << 20) letters += "theinreonandself";
  EXPECT_LT(seconds(letters) + seconds(blanks) + seconds(invalid), 30);
}

TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer tokenizer = small(), other = small([] {
                                         Vocabulary few = small_vocabulary();
                                         few.merges = {"h e"};
                                         return few;
                                       }());
  const std::string text = "def the(self): return self and the <|im_end|>";
  const auto expected = tokenizer.encode(text), expected_other = other.encode(text);
  ASSERT_NE(expected, expected_other);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i)
        wrong += tokenizer.encode(text) != expected || other.encode(text) != expected_other;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace headrace
