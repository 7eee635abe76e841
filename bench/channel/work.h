// Work of a known length.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace headrace::bench {

// A chain of dependent multiplications. Work that waits for a clock would end on time even where
// its thread had lost the core meanwhile; this does not.
inline void work(std::uint64_t steps) {
  std::uint64_t value = steps;
  for (std::uint64_t i = 0; i < steps; ++i) {
    value = value * 6364136223846793005U + 1;
    asm volatile("" : "+r"(value));
  }
}

// Steps of work() that take `seconds` on an undisturbed core: from the shortest of many batches.
inline std::uint64_t steps_for(double seconds) {
  constexpr std::uint64_t batch = 20000;
  double shortest = 1;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work(batch);
    const std::chrono::duration<double> needed = std::chrono::steady_clock::now() - start;
    shortest = std::min(shortest, needed.count());
  }
  return static_cast<std::uint64_t>(seconds / shortest * batch);
}

}  // namespace headrace::bench
