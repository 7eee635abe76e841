#include "headrace/tokenizer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <unordered_map>

#include "headrace/error.h"
#include "nn/files/bpe.h"
#include "nn/files/byte_reader.h"
#include "nn/files/chat_template.h"
#include "nn/files/pretokenizer.h"
#include "nn/files/word_cache.h"

namespace headrace {
namespace {

// Values of tokenizer.ggml.token_type.
constexpr std::int64_t kNormal = 1, kControl = 3, kUserDefined = 4;

// GPT-2's alphabet: a vocabulary writes each byte as a printable character, its own where it is one
// in Latin-1, else one of U+0100 and following. Returns the byte of each, -1 for other characters.
std::array<std::int16_t, 0x180> bytes_of_alphabet() {
  std::array<std::int16_t, 0x180> bytes;
  bytes.fill(-1);
  std::size_t next = 256;
  for (std::int16_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
    bytes[printable ? static_cast<std::size_t>(b) : next++] = b;
  }
  return bytes;
}

// The bytes that a token's text stands for; the text itself where it is not of the alphabet.
std::string decode_alphabet(const std::string& text) {
  static const auto bytes = bytes_of_alphabet();
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::uint32_t c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {  // the alphabet ends at U+0143: two bytes of UTF-8
      if ((c & 0xe0) != 0xc0 || i + 1 == text.size() || (text[i + 1] & 0xc0) != 0x80) return text;
      c = (c & 0x1f) << 6 | (text[++i] & 0x3f);
    }
    if (c >= bytes.size() || bytes[c] < 0) return text;
    out += static_cast<char>(bytes[c]);
  }
  return out;
}

}  // namespace

struct Tokenizer::Data {
  explicit Data(const GgufFile& file);

  void encode_plain(std::string_view text, std::vector<std::int32_t>& out) const;
  // The first special token in `text` at or after `from`, the longest where several begin there.
  std::pair<std::size_t, std::int32_t> find_special(std::string_view text, std::size_t from) const;
  std::int32_t checked(std::int32_t id) const {
    if (id < 0 || id >= static_cast<std::int32_t>(bytes.size()))
      fail(ErrorCode::bad_input, "{}: there is no token {}; the vocabulary has {}", path, id,
           bytes.size());
    return id;
  }
  std::int32_t lookup(std::string_view text) const {
    const auto found = ids.find(text);
    return found == ids.end() ? -1 : found->second;
  }

  std::string path;
  const std::uint32_t number;      // tells tokenizers apart in the caches of words
  std::vector<std::string> texts;  // as the file writes them
  std::vector<std::string> bytes;  // what they stand for
  std::vector<bool> control;
  std::unordered_map<std::string_view, std::int32_t> ids;  // of texts
  std::array<std::int32_t, 256> byte_tokens{};             // -1: none
  std::vector<std::int32_t> specials;                      // longest first
  std::array<bool, 256> begins_special{};
  std::unique_ptr<const MergeTable> merges;
  std::unique_ptr<const Pretokenizer> pretokenizer;
  std::int32_t end = 0;
  std::vector<std::int32_t>
      roles;                  // tokens that the metadata give a meaning: bos, eos, padding, ...
  std::string chat_template;  // empty: none

 private:
  void read_vocabulary(const GgufFile& file);
  void read_merges(const GgufFile& file);
  void read_roles(const GgufFile& file);
};

namespace {

std::uint32_t next_number() {
  static std::atomic<std::uint32_t> count{0};
  return ++count;
}

}  // namespace

Tokenizer::Data::Data(const GgufFile& file) : path(file.path()), number(next_number()) {
  if (const auto& model = file.text("tokenizer.ggml.model"); model != "gpt2")
    fail(ErrorCode::bad_input, "{}: tokenizer \"{}\" is not supported; gpt2 (byte-level BPE) is",
         path, printable(model));
  const std::string pre =
      file.has("tokenizer.ggml.pre") ? file.text("tokenizer.ggml.pre") : std::string("gpt-2");
  pretokenizer = Pretokenizer::named(pre);
  if (!pretokenizer)
    fail(ErrorCode::bad_input, "{}: pre-tokenizer \"{}\" is not supported; supported are {}", path,
         printable(pre), Pretokenizer::kKnown);
  read_vocabulary(file);
  read_merges(file);
  read_roles(file);
  if (file.has("tokenizer.chat_template")) chat_template = file.text("tokenizer.chat_template");
}

void Tokenizer::Data::read_vocabulary(const GgufFile& file) {
  texts = file.texts("tokenizer.ggml.tokens");
  std::vector<std::int64_t> types(texts.size(), kNormal);
  if (const char* key = "tokenizer.ggml.token_type"; file.has(key)) {
    const auto* stored = std::get_if<std::vector<std::int64_t>>(&file.metadata().at(key));
    if (stored == nullptr || stored->size() != texts.size())
      fail(ErrorCode::bad_input, "{}: {} is not an integer for each of the {} tokens", path, key,
           texts.size());
    types = *stored;
  }
  byte_tokens.fill(-1);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (texts[i].empty()) fail(ErrorCode::bad_input, "{}: token {} is empty", path, id);
    if (!ids.emplace(texts[i], id).second)
      fail(ErrorCode::bad_input, "{}: tokens {} and {} are both \"{}\"", path, ids.at(texts[i]), id,
           printable(texts[i]));
    control.push_back(types[i] == kControl);
    const bool special = types[i] == kControl || types[i] == kUserDefined;
    bytes.push_back(special ? texts[i] : decode_alphabet(texts[i]));
    if (special) {
      specials.push_back(id);
      begins_special[static_cast<unsigned char>(texts[i][0])] = true;
    } else if (bytes[i].size() == 1) {
      byte_tokens[static_cast<unsigned char>(bytes[i][0])] = id;
    }
  }
  std::sort(specials.begin(), specials.end(),
            [&](std::int32_t a, std::int32_t b) { return texts[a].size() > texts[b].size(); });
}

void Tokenizer::Data::read_merges(const GgufFile& file) {
  const auto& lines = file.texts("tokenizer.ggml.merges");
  if (lines.empty()) fail(ErrorCode::bad_input, "{}: the tokenizer has no merges", path);
  auto table = std::make_unique<MergeTable>(lines.size());
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    const std::string_view line = lines[rank];
    const std::size_t blank = line.find(' ');
    std::int32_t left = -1, right = -1, merged = -1;
    if (blank != std::string_view::npos) {
      left = lookup(line.substr(0, blank));
      right = lookup(line.substr(blank + 1));
      merged = lookup(std::string(line.substr(0, blank)).append(line.substr(blank + 1)));
    }
    if (left < 0 || right < 0 || merged < 0)
      fail(ErrorCode::bad_input,
           "{}: merge {}, \"{}\", is not two tokens of the vocabulary whose union is one too", path,
           rank, printable(line));
    table->add(left, right, merged);
  }
  merges = std::move(table);
}

void Tokenizer::Data::read_roles(const GgufFile& file) {
  const auto role = [&](const std::string& name) {
    const std::uint64_t id = file.integer("tokenizer.ggml." + name);
    if (id >= texts.size())
      fail(ErrorCode::bad_input, "{}: tokenizer.ggml.{} is {}, but there are {} tokens", path, name,
           id, texts.size());
    roles.push_back(static_cast<std::int32_t>(id));
    return roles.back();
  };
  end = role("eos_token_id");
  for (const char* name : {"bos_token_id", "unknown_token_id", "padding_token_id", "eot_token_id"})
    if (file.has(std::string("tokenizer.ggml.") + name)) role(name);
  for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"})
    if (const std::int32_t id = lookup(text); id >= 0) roles.push_back(id);
}

void Tokenizer::Data::encode_plain(std::string_view text, std::vector<std::int32_t>& out) const {
  thread_local WordCache cache;
  WordMerger merge(*merges, byte_tokens);
  pretokenizer->split(text, [&](std::string_view word) {
    const auto key = WordCache::key(word, number);
    std::span<const std::int32_t> tokens;
    if (key) tokens = cache.find(*key);
    if (tokens.empty()) {
      tokens = merge(word);
      if (key) cache.keep(*key, tokens);
    }
    out.insert(out.end(), tokens.begin(), tokens.end());
  });
}

std::pair<std::size_t, std::int32_t> Tokenizer::Data::find_special(std::string_view text,
                                                                   std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!begins_special[static_cast<unsigned char>(text[at])]) continue;
    for (const std::int32_t id : specials)
      if (text.substr(at).starts_with(texts[id])) return {at, id};
  }
  return {text.size(), -1};
}

Tokenizer Tokenizer::from(const GgufFile& file) {
  Tokenizer tokenizer;
  tokenizer.data_ = std::make_shared<const Data>(file);
  return tokenizer;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool special) const {
  std::vector<std::int32_t> out;
  if (!special) {
    data_->encode_plain(text, out);
    return out;
  }
  for (std::size_t at = 0; at < text.size();) {
    const auto [where, id] = data_->find_special(text, at);
    data_->encode_plain(text.substr(at, where - at), out);
    if (id < 0) break;
    out.push_back(id);
    at = where + data_->texts[id].size();
  }
  return out;
}

std::string Tokenizer::decode(const std::vector<std::int32_t>& ids) const {
  std::string out;
  for (const std::int32_t id : ids) out += bytes_of(id);
  return out;
}

std::string_view Tokenizer::bytes_of(std::int32_t id) const {
  return data_->bytes[data_->checked(id)];
}

bool Tokenizer::expresses(unsigned char byte) const {
  return data_->byte_tokens[byte] >= 0;
}
std::int32_t Tokenizer::size() const {
  return static_cast<std::int32_t>(data_->bytes.size());
}
std::int32_t Tokenizer::end_of_text() const {
  return data_->end;
}
std::int32_t Tokenizer::token(std::string_view text) const {
  return data_->lookup(text);
}
bool Tokenizer::is_control(std::int32_t id) const {
  return data_->control[data_->checked(id)];
}

bool Tokenizer::is_end(std::int32_t id) const {
  return data_->checked(id) == data_->end || id == token("<|endoftext|>") ||
         id == token("<|im_end|>");
}

std::int32_t Tokenizer::mask_token() const {
  // Reserved tokens come last among the control tokens; those with a meaning are left alone.
  for (std::int32_t id = size() - 1; id >= 0; --id)
    if (is_control(id) && std::count(data_->roles.begin(), data_->roles.end(), id) == 0) return id;
  fail(ErrorCode::bad_input, "{}: no control token is free to serve as the drafter's mask",
       data_->path);
}

bool Tokenizer::has_chat_template() const {
  return !data_->chat_template.empty();
}

std::string Tokenizer::chat_prompt(std::string_view user) const {
  return chat_ml_prompt(data_->chat_template, user, data_->path);
}

}  // namespace headrace
