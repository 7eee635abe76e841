#include "nn/files/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "headrace/error.h"

namespace headrace {
namespace {

// White space as the tokenizers' own engines define it: Unicode's White_Space. PCRE2's \s under UCP
// has U+180E besides.
#define SPACE "\\t-\\r\\x{85}\\p{Z}"

// GPT-2's pattern.
constexpr const char* kGpt2 = "'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE
                              "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+";

// Each number character by itself, then GPT-2's pattern between them. In one pattern: a number is a
// word, and blanks before a number are followed by nothing, as at the end of the text.
constexpr const char* kSmolLm = "\\p{N}|'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?[^" SPACE
                                "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "\\p{N}])|[" SPACE "]+";

#undef SPACE

}  // namespace

struct Pretokenizer::Pattern {
  explicit Pattern(const char* text) {
    int error = 0;
    PCRE2_SIZE where = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text), PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_MATCH_INVALID_UTF, &error, &where, nullptr);
    if (code == nullptr)
      fail(ErrorCode::internal, "pre-tokenizer: PCRE2 error {} at {} of {}", error, where, text);
    if (const int status = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); status != 0)
      fail(ErrorCode::resource,
           "pre-tokenizer: PCRE2 cannot compile to machine code (error {}); its library needs JIT, "
           "and the system must allow executable memory",
           status);
  }
  ~Pattern() { pcre2_code_free(code); }

  pcre2_code* code = nullptr;
};

Pretokenizer::Pretokenizer(std::unique_ptr<const Pattern> pattern) : pattern_(std::move(pattern)) {}
Pretokenizer::~Pretokenizer() = default;

std::unique_ptr<const Pretokenizer> Pretokenizer::named(const std::string& name) {
  const char* pattern = name == "smollm" ? kSmolLm : name == "gpt-2" ? kGpt2 : nullptr;
  if (pattern == nullptr) return nullptr;
  return std::unique_ptr<const Pretokenizer>(
      new Pretokenizer(std::make_unique<const Pattern>(pattern)));
}

void Pretokenizer::split(std::string_view text,
                         const std::function<void(std::string_view)>& word) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  if (!match) fail(ErrorCode::resource, "pre-tokenizer: out of memory");
  const auto emit = [&](std::size_t from, std::size_t to) {
    for (; from < to; from += kLongestWord)
      word(text.substr(from, std::min(kLongestWord, to - from)));
  };
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match.get());
  std::size_t at = 0;
  while (at < text.size()) {
    const int status =
        pcre2_jit_match(pattern_->code, subject, text.size(), at, 0, match.get(), nullptr);
    if (status == PCRE2_ERROR_NOMATCH) break;
    if (status < 0)
      fail(ErrorCode::internal, "pre-tokenizer: PCRE2 error {} at byte {}", status, at);
    emit(at, found[0]);  // every character matches: what was skipped is no UTF-8
    emit(found[0], found[1]);
    at = found[1];
  }
  emit(at, text.size());
}

}  // namespace headrace
