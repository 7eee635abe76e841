// Splits text into the words that BPE merges within. Layer: nn (no libtorch).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace headrace {

class Pretokenizer {
 public:
  // nullptr for a name that is not known.
  static std::unique_ptr<const Pretokenizer> named(const std::string& name);
  static constexpr const char* kKnown = "smollm, gpt-2";

  ~Pretokenizer();

  // A longer word is merged in parts, which bounds the memory that one line without blanks takes.
  static constexpr std::size_t kLongestWord = 1 << 20;  // bytes

  // Calls `word` for consecutive parts that together are the whole text. A run of bytes that are no
  // UTF-8 is a word of its own. Thread-safe.
  void split(std::string_view text, const std::function<void(std::string_view)>& word) const;

 private:
  struct Pattern;
  explicit Pretokenizer(std::unique_ptr<const Pattern> pattern);
  std::unique_ptr<const Pattern> pattern_;
};

}  // namespace headrace
