// Byte-pair merges of one word. Layer: nn (no libtorch).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace headrace {

// Which pairs of tokens merge, in which order, into which token. Read-only once filled, so that any
// number of threads may use it.
class MergeTable {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  explicit MergeTable(std::size_t merges);
  // The next merge in order of rank. The first of equal pairs counts.
  void add(std::int32_t left, std::int32_t right, std::int32_t merged);

  // The rank of a pair, kNone where it does not merge; lower ranks merge first.
  std::uint32_t rank(std::int32_t left, std::int32_t right) const;
  std::int32_t merged(std::uint32_t rank) const { return merged_[rank]; }

 private:
  struct Slot {
    std::uint64_t pair = 0;
    std::uint32_t rank = kNone;
  };
  std::size_t slot_of(std::uint64_t pair) const;

  std::vector<Slot> slots_;  // open addressing, at most half full
  int shift_;
  std::vector<std::int32_t> merged_;
};

// Merges words. Holds scratch memory: one object a thread.
class WordMerger {
 public:
  WordMerger(const MergeTable& merges, const std::array<std::int32_t, 256>& byte_tokens)
      : merges_(merges), byte_tokens_(byte_tokens) {}

  // The word's tokens, valid until the next call. Takes O(n log n) for n bytes. Bytes without a
  // token (-1) are left out before anything merges.
  const std::vector<std::int32_t>& operator()(std::string_view word);

 private:
  void watch(std::uint32_t at);

  const MergeTable& merges_;
  const std::array<std::int32_t, 256>& byte_tokens_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::uint32_t> next_, previous_, rank_;  // rank_[i]: of the pair that begins at i
  std::vector<std::uint64_t> heap_;  // rank << 32 | place: lowest rank, then leftmost
};

}  // namespace headrace
