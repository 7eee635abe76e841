#include "nn/files/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace headrace {
namespace {

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(std::size_t merges)
    : slots_(std::bit_ceil(2 * merges + 2)), shift_(64 - std::countr_zero(slots_.size())) {
  merged_.reserve(merges);
}

// The slot that holds the pair, or the empty one where it would go.
std::size_t MergeTable::slot_of(std::uint64_t pair) const {
  std::size_t slot = (pair * 0x9e3779b97f4a7c15u ^ pair << 7) * 0xbf58476d1ce4e5b9u >> shift_;
  while (slots_[slot].rank != kNone && slots_[slot].pair != pair)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void MergeTable::add(std::int32_t left, std::int32_t right, std::int32_t merged) {
  const std::uint64_t pair = pair_of(left, right);
  Slot& slot = slots_[slot_of(pair)];
  if (slot.rank == kNone) slot = {pair, static_cast<std::uint32_t>(merged_.size())};
  merged_.push_back(merged);
}

std::uint32_t MergeTable::rank(std::int32_t left, std::int32_t right) const {
  return slots_[slot_of(pair_of(left, right))].rank;
}

// Ranks the pair that begins at `at` and queues it. What the heap knew of it before is stale.
void WordMerger::watch(std::uint32_t at) {
  rank_[at] = MergeTable::kNone;
  if (next_[at] >= tokens_.size()) return;
  rank_[at] = merges_.rank(tokens_[at], tokens_[next_[at]]);
  if (rank_[at] == MergeTable::kNone) return;
  heap_.push_back(std::uint64_t{rank_[at]} << 32 | at);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

const std::vector<std::int32_t>& WordMerger::operator()(std::string_view word) {
  tokens_.clear();
  heap_.clear();
  for (const char c : word)
    if (const std::int32_t token = byte_tokens_[static_cast<unsigned char>(c)]; token >= 0)
      tokens_.push_back(token);
  const auto n = static_cast<std::uint32_t>(tokens_.size());
  next_.resize(n);
  previous_.resize(n);
  rank_.resize(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    next_[i] = i + 1;
    previous_[i] = i - 1;  // wraps to no place for the first
  }
  for (std::uint32_t i = 0; i < n; ++i) watch(i);

  while (!heap_.empty()) {
    const auto rank = static_cast<std::uint32_t>(heap_.front() >> 32);
    const auto at = static_cast<std::uint32_t>(heap_.front());
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    if (rank_[at] != rank) continue;  // stale: one of the pair has merged meanwhile
    const std::uint32_t gone = next_[at];
    tokens_[at] = merges_.merged(rank);
    rank_[gone] = MergeTable::kNone;
    next_[at] = next_[gone];
    if (next_[at] < n) previous_[next_[at]] = at;
    watch(at);
    if (previous_[at] < n) watch(previous_[at]);
  }

  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < n; i = next_[i]) tokens_[kept++] = tokens_[i];
  tokens_.resize(kept);
  return tokens_;
}

}  // namespace headrace
