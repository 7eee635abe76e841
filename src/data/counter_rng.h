// Random numbers as a pure function of a key and a counter, the same on every platform and standard
// library: SplitMix64 (Steele, Lea, Flood 2014) started at a hash of the key. Not for cryptography.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

namespace headrace {

// What a stream of random numbers is for: the second word of its key.
enum class Draw : std::uint64_t {
  piece_order = 1,
  row_order,
  anchors,
  held_out_files,
  held_out_pieces,
  held_out_chunks,
  head_tail
};

class CounterRng {
 public:
  CounterRng(std::uint64_t seed, Draw purpose, std::initializer_list<std::uint64_t> key)
      : state_(mix(mix(seed) + static_cast<std::uint64_t>(purpose))) {
    for (std::uint64_t word : key) state_ = mix(state_ + kStep + word);
  }

  std::uint64_t next() { return mix(state_ += kStep); }

  // Uniform in [0, bound), bound > 0; its bias of bound / 2^64 is far below what any sample could
  // show.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

  static constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  std::uint64_t state_;
};

// Fisher-Yates. (std::shuffle gives another order with another standard library.)
template <typename T>
void shuffle(std::span<T> items, CounterRng rng) {
  for (std::size_t n = items.size(); n > 1; --n) std::swap(items[n - 1], items[rng.below(n)]);
}

}  // namespace headrace
