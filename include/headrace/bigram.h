// A bigram table: the baseline that a drafter must beat. Layer: data.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "headrace/acceptance.h"

namespace headrace {

// Counts of the next token given a token, from the rows trained on. Memory: one entry for each
// distinct pair (about 40 bytes; 600 thousand pairs for 2.7 million tokens of code).
class BigramTable {
 public:
  void add(std::span<const std::int32_t> tokens);  // one row without padding; ids are not negative

  // The most frequent successor, the smallest of equals; -1 where the token was never followed by
  // one.
  std::int32_t next(std::int32_t token) const;

  // At most `count` tokens, each the successor of the one before; ends where there is none.
  std::vector<std::int32_t> chain(std::int32_t token, std::size_t count) const;

 private:
  struct Best {
    std::int32_t token = -1;
    std::uint32_t count = 0;
  };
  std::unordered_map<std::uint64_t, std::uint32_t> counts_;  // by pair
  std::vector<Best> best_;                                   // by first token
};

// Acceptance where the table proposes block - 1 tokens for every pass.
Acceptance bigram_acceptance(const BigramTable& table,
                             std::span<const std::vector<std::int32_t>> continuations,
                             std::size_t block);

}  // namespace headrace
