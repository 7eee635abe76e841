// Tokens of words seen before, in a fixed 1 MiB. Layer: nn (no libtorch).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace headrace {

// Direct-mapped: a word replaces whatever was in its slot. Not thread-safe: one a thread. Serves
// several tokenizers, whose words are told apart by their owner number.
class WordCache {
 public:
  static constexpr std::size_t kLongest = 27;  // bytes of a word that is kept
  static constexpr std::size_t kMost = 7;      // tokens

  struct Key {
    std::array<std::uint64_t, 4> parts{};  // the word padded with zeros, its length, the owner
    bool operator==(const Key&) const = default;
  };

  // Nothing for a word that is too long to keep.
  static std::optional<Key> key(std::string_view word, std::uint32_t owner) {
    if (word.size() > kLongest) return std::nullopt;
    Key key;
    auto* bytes = reinterpret_cast<char*>(key.parts.data());
    std::memcpy(bytes, word.data(), word.size());
    bytes[kLongest] = static_cast<char>(word.size());
    std::memcpy(bytes + kLongest + 1, &owner, sizeof(owner));
    return key;
  }

  // Empty where the word is not there. Every word kept has a token.
  std::span<const std::int32_t> find(const Key& key) const {
    const Slot& slot = slots_[slot_of(key)];
    return slot.key == key ? std::span(slot.tokens.data(), slot.count)
                           : std::span<const std::int32_t>();
  }

  void keep(const Key& key, std::span<const std::int32_t> tokens) {
    if (tokens.empty() || tokens.size() > kMost) return;
    Slot& slot = slots_[slot_of(key)];
    slot.key = key;
    slot.count = static_cast<std::uint32_t>(tokens.size());
    std::copy(tokens.begin(), tokens.end(), slot.tokens.begin());
  }

 private:
  struct alignas(64) Slot {  // a cache line
    Key key;
    std::array<std::int32_t, kMost> tokens{};
    std::uint32_t count = 0;
  };
  static_assert(sizeof(Slot) == 64);

  static std::size_t slot_of(const Key& key) {
    std::uint64_t hash = 0;
    for (const std::uint64_t part : key.parts) {
      hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return hash & (kSlots - 1);
  }

  static constexpr std::size_t kSlots = 1 << 14;
  std::vector<Slot> slots_{kSlots};
};

}  // namespace headrace
