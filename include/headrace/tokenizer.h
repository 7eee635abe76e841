// Byte-level BPE from a GGUF file (tokenizer.ggml.model "gpt2", pre-tokenizers "smollm" and
// "gpt-2"). Layer: nn (no libtorch).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/gguf.h"

namespace headrace {

class Tokenizer {
 public:
  // Error(bad_input) names the file and what is missing: no merges, another tokenizer model, a
  // pre-tokenizer that is not known (by name).
  static Tokenizer from(const GgufFile& file);

  // Bytes in, ids out; any bytes (invalid UTF-8 too). With `special`, the text of control tokens
  // such as
  // <|im_start|> becomes that token; without, it is plain text. Thread-safe. Decoding gives the
  // same bytes again, but for those that the vocabulary cannot express: they are left out, as by
  // the tokenizers library and llama.cpp.
  std::vector<std::int32_t> encode(std::string_view text, bool special = false) const;
  std::string decode(const std::vector<std::int32_t>& ids) const;  // exact bytes
  std::string_view bytes_of(std::int32_t id) const;

  // Whether the vocabulary has a token for this byte. SmolLM2 lacks 21: six control characters and
  // bytes that no assigned UTF-8 character has (C0, C1, F1, F2, F5 to FF).
  bool expresses(unsigned char byte) const;

  std::int32_t size() const;
  std::int32_t end_of_text() const;  // tokenizer.ggml.eos_token_id
  bool is_end(
      std::int32_t id) const;  // any token that ends generation (eos, <|endoftext|>, <|im_end|>)
  std::int32_t token(
      std::string_view text) const;  // id of a token by its exact text, -1 where there is none
  bool is_control(std::int32_t id) const;
  // A reserved control token that text never produces, for the drafter's mask (SmolLM2: 16).
  std::int32_t mask_token() const;

  // The chat prompt for one user message. ChatML is recognised; Error(bad_input) names any other
  // template.
  bool has_chat_template() const;
  std::string chat_prompt(std::string_view user) const;

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

}  // namespace headrace
