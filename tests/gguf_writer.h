// Writes small GGUF files for tests: any metadata and tensors, and random llama models whose
// tokenizer works.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "headrace/gguf.h"
#include "nn/files/ggml_types.h"

namespace headrace::testing {

// IEEE half, rounded toward zero; good enough for scales of test weights.
inline std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const int exponent = static_cast<int>((bits >> 23) & 0xff) - 127 + 15;
  if (exponent <= 0) return sign;
  if (exponent >= 31) return static_cast<std::uint16_t>(sign | 0x7c00);
  return static_cast<std::uint16_t>(sign | exponent << 10 | ((bits >> 13) & 0x3ff));
}

class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // written to the metadata where it is not GGUF's default of 32

  void add(const std::string& key, std::uint32_t value) { entry(key, 4, raw(value)); }
  void add(const std::string& key, float value) { entry(key, 6, raw(value)); }
  void add(const std::string& key, bool value) { entry(key, 7, std::string(1, value ? 1 : 0)); }
  void add(const std::string& key, const std::string& value) { entry(key, 8, text(value)); }
  void add(const std::string& key, const char* value) { add(key, std::string(value)); }
  void add(const std::string& key, const std::vector<std::string>& values) {
    std::string body = raw(std::uint32_t{8}) + raw(std::uint64_t{values.size()});
    for (const std::string& value : values) body += text(value);
    entry(key, 9, body);
  }
  void add(const std::string& key, const std::vector<std::int32_t>& values) {
    std::string body = raw(std::uint32_t{5}) + raw(std::uint64_t{values.size()});
    for (const std::int32_t value : values) body += raw(value);
    entry(key, 9, body);
  }
  // The value's type and bytes as given, right or wrong.
  void entry(const std::string& key, std::uint32_t type, const std::string& body) {
    entries_.push_back(text(key) + raw(type) + body);
  }

  // Values are quantised to `type`; shape is outermost first.
  void tensor(const std::string& name, const std::vector<std::uint64_t>& shape, GgmlType type,
              const std::vector<float>& values) {
    tensor_raw(name, shape, static_cast<std::uint32_t>(type), encode(type, values));
  }
  void tensor_raw(const std::string& name, const std::vector<std::uint64_t>& shape,
                  std::uint32_t type, const std::string& data) {
    std::string info = text(name) + raw(static_cast<std::uint32_t>(shape.size()));
    for (auto size = shape.rbegin(); size != shape.rend(); ++size) info += raw(*size);
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    infos_.push_back(info + raw(type) + raw(std::uint64_t{data_.size()}));
    data_ += data;
  }

  std::string bytes() const {
    std::string out = "GGUF" + raw(version) + raw(std::uint64_t{infos_.size()}) +
                      raw(std::uint64_t{entries_.size() + (alignment != 32)});
    if (alignment != 32)
      out += text("general.alignment") + raw(std::uint32_t{4}) + raw(std::uint32_t(alignment));
    for (const std::string& entry : entries_) out += entry;
    for (const std::string& info : infos_) out += info;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }

  template <typename T>
  static std::string raw(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }
  static std::string text(const std::string& value) {
    return raw(std::uint64_t{value.size()}) + value;
  }

  static std::string encode(GgmlType type, const std::vector<float>& values) {
    std::string out;
    const std::size_t step = block_of(type).values;
    for (std::size_t i = 0; i < values.size(); i += step) out += encode_block(type, &values[i]);
    return out;
  }

 private:
  static std::string encode_block(GgmlType type, const float* v) {
    const auto [least, most] = std::minmax_element(v, v + block_of(type).values);
    const float magnitude = std::max(std::abs(*least), std::abs(*most));
    const auto level = [](float value, float scale, int low, int high) {
      const long nearest = scale == 0 ? 0 : std::lround(value / scale);
      return static_cast<int>(std::clamp<long>(nearest, low, high));
    };
    std::string out;
    switch (type) {
      case GgmlType::F32:
        return raw(*v);
      case GgmlType::F16:
        return raw(to_half(*v));
      case GgmlType::BF16:
        return raw(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(*v) >> 16));
      case GgmlType::Q8_0: {
        const float scale = magnitude / 127;
        out = raw(to_half(scale));
        for (int j = 0; j < 32; ++j) out += static_cast<char>(level(v[j], scale, -127, 127));
        return out;
      }
      case GgmlType::Q4_0: {
        const float scale = magnitude / 7;
        out = raw(to_half(scale));
        for (int j = 0; j < 16; ++j)
          out += static_cast<char>((level(v[j], scale, -8, 7) + 8) |
                                   (level(v[j + 16], scale, -8, 7) + 8) << 4);
        return out;
      }
      case GgmlType::Q4_1: {
        const float scale = (*most - *least) / 15;
        out = raw(to_half(scale)) + raw(to_half(*least));
        for (int j = 0; j < 16; ++j)
          out += static_cast<char>(level(v[j] - *least, scale, 0, 15) |
                                   level(v[j + 16] - *least, scale, 0, 15) << 4);
        return out;
      }
    }
    return out;
  }

  std::vector<std::string> entries_, infos_;
  std::string data_;
};

// GPT-2's alphabet: the printable character, in UTF-8, that stands for each byte in a vocabulary.
inline std::vector<std::string> byte_alphabet() {
  std::vector<std::string> alphabet;
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
    const int c = printable ? b : next++;
    alphabet.push_back(c < 128 ? std::string(1, static_cast<char>(c))
                               : std::string{static_cast<char>(0xc0 | c >> 6),
                                             static_cast<char>(0x80 | (c & 0x3f))});
  }
  return alphabet;
}

struct Vocabulary {
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;  // 3: control, 1: normal
};

// Four control tokens, the 256 bytes and a token for each merge: 288 tokens, 9 times 32.
inline Vocabulary small_vocabulary() {
  Vocabulary v;
  v.tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"};
  v.types.assign(v.tokens.size(), 3);
  for (const std::string& byte : byte_alphabet()) v.tokens.push_back(byte);
  v.merges = {"Ġ t", "h e",  "i n",   "r e",   "o n", "e r", "a t",  "Ġt he", "Ġ a",  "e n",
              "o r", "Ġ Ġ",  "ĠĠ ĠĠ", "s e",   "Ġ s", "e s", "in g", "a n",   "an d", "Ġ and",
              "d e", "de f", "l f",   "se lf", "Ġ =", "( )", "re t", "Ċ ĠĠĠĠ"};
  for (const std::string& merge : v.merges) {
    const std::size_t blank = merge.find(' ');
    v.tokens.push_back(merge.substr(0, blank) + merge.substr(blank + 1));
  }
  v.types.resize(v.tokens.size(), 1);
  return v;
}

inline constexpr const char* kChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}";

inline void add_tokenizer(GgufWriter& writer, const Vocabulary& vocabulary,
                          const std::string& pre = "smollm") {
  writer.add("tokenizer.ggml.model", "gpt2");
  writer.add("tokenizer.ggml.pre", pre);
  writer.add("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.add("tokenizer.ggml.token_type", vocabulary.types);
  writer.add("tokenizer.ggml.merges", vocabulary.merges);
  writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  writer.add("tokenizer.ggml.add_bos_token", false);
  writer.add("tokenizer.chat_template", kChatMl);
}

// Widths that quantised types can store are multiples of 32.
struct RandomLlama {
  std::uint32_t hidden = 64, layers = 2, heads = 4, kv_heads = 2, ffn = 96, context = 256;
  float rope_base = 10000;
  bool tied = true;               // no output.weight: the embedding is the head
  GgmlType type = GgmlType::F32;  // of the matrices; norms are F32 as everywhere
};

// The bytes of a random llama with small_vocabulary(). Rows of q and k count as stored for
// interleaved RoPE, as llama.cpp stores them.
inline std::string random_llama(const RandomLlama& shape = {}, std::uint64_t seed = 1) {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("llama.block_count", shape.layers);
  writer.add("llama.context_length", shape.context);
  writer.add("llama.embedding_length", shape.hidden);
  writer.add("llama.feed_forward_length", shape.ffn);
  writer.add("llama.attention.head_count", shape.heads);
  writer.add("llama.attention.head_count_kv", shape.kv_heads);
  writer.add("llama.rope.freq_base", shape.rope_base);
  writer.add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const Vocabulary vocabulary = small_vocabulary();
  add_tokenizer(writer, vocabulary);

  std::mt19937_64 random(seed);
  const auto matrix = [&](const std::string& name, std::uint64_t out, std::uint64_t in) {
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(in)));
    std::vector<float> values(out * in);
    for (float& value : values) value = normal(random);
    writer.tensor(name, {out, in}, shape.type, values);
  };
  const auto norm = [&](const std::string& name) {
    std::uniform_real_distribution<float> near_one(0.8f, 1.2f);
    std::vector<float> values(shape.hidden);
    for (float& value : values) value = near_one(random);
    writer.tensor(name, {shape.hidden}, GgmlType::F32, values);
  };
  const std::uint64_t kv = std::uint64_t{shape.hidden} / shape.heads * shape.kv_heads;
  matrix("token_embd.weight", vocabulary.tokens.size(), shape.hidden);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    norm(block + "attn_norm.weight");
    matrix(block + "attn_q.weight", shape.hidden, shape.hidden);
    matrix(block + "attn_k.weight", kv, shape.hidden);
    matrix(block + "attn_v.weight", kv, shape.hidden);
    matrix(block + "attn_output.weight", shape.hidden, shape.hidden);
    norm(block + "ffn_norm.weight");
    matrix(block + "ffn_gate.weight", shape.ffn, shape.hidden);
    matrix(block + "ffn_up.weight", shape.ffn, shape.hidden);
    matrix(block + "ffn_down.weight", shape.hidden, shape.ffn);
  }
  norm("output_norm.weight");
  if (!shape.tied) matrix("output.weight", vocabulary.tokens.size(), shape.hidden);
  return writer.bytes();
}

inline std::string write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path.string();
}

// Writes random_llama() into the folder and returns the file's path.
inline std::string write_random_llama(const std::filesystem::path& folder,
                                      const RandomLlama& shape = {}, std::uint64_t seed = 1) {
  std::filesystem::create_directories(folder);
  return write_file(folder / ("random-llama-" + std::to_string(seed) + ".gguf"),
                    random_llama(shape, seed));
}

}  // namespace headrace::testing
