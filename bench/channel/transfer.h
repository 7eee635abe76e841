// Items through a queue, checked on arrival: the loops that every competitor runs in.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <type_traits>

#include "contest.h"
#include "headrace/error.h"

namespace headrace::bench {

// 64 bytes, all written and all read.
using Line = std::array<std::uint64_t, 8>;

template <typename T>
T make_item(std::uint64_t value) {
  if constexpr (std::is_same_v<T, Line>)
    return {value, value, value, value, value, value, value, value};
  else
    return value;
}

// The value of an item, 0 where the item is damaged.
inline std::uint64_t value_of(std::uint64_t item) {
  return item;
}
inline std::uint64_t value_of(const Line& item) {
  std::uint64_t damage = 0;
  for (const std::uint64_t word : item) damage |= word ^ item[0];
  return damage == 0 ? item[0] : 0;
}

// How a thread waits between two tries: not at all, for a pause instruction, or for sixteen of them
// (about what Headrace's own large rings do inside a try that fails). The same for every queue; none
// yields, so each thread needs a core of its own.
template <int pauses>
struct Spin {
  static constexpr const char* mark = pauses == 0 ? "" : pauses == 1 ? "p" : "P";
  static void relax() {
    for (int i = 0; i < pauses; ++i) _mm_pause();
  }
  template <typename Queue, typename T>
  static void push(Queue& queue, T& item) {
    while (!queue.try_push(item)) relax();
  }
  template <typename Queue, typename T>
  static void pop(Queue& queue, T& item) {
    while (!queue.try_pop(item)) relax();
  }
};

struct Block {
  static constexpr const char* mark = "";
  template <typename Queue, typename T>
  static void push(Queue& queue, T& item) {
    queue.push(item);
  }
  template <typename Queue, typename T>
  static void pop(Queue& queue, T& item) {
    queue.pop(item);
  }
};

// Moves what is allocated after it to other addresses, by up to 256 KiB. Where a queue lies in the
// caches changes its speed by up to two times; a new place for each sample keeps the draw fair.
class Elsewhere {
 public:
  Elsewhere() : shift_(std::make_unique_for_overwrite<char[]>(64 * (1 + dice()() % 4096))) {}

 private:
  static std::minstd_rand& dice() {
    static std::minstd_rand generator;
    return generator;
  }
  const std::unique_ptr<char[]> shift_;
};

inline void check_transfer(std::uint64_t wrong, const char* name) {
  if (wrong != 0)
    fail(ErrorCode::internal, "{}: items were lost, damaged or out of order at {} places", name,
         wrong);
}

// Items 1, 2, ... from one core to the other.
template <typename Queue, typename T, typename Wait>
Usage one_way(const Options& options, std::uint64_t items) {
  const Elsewhere elsewhere;
  const auto queue = std::make_unique<Queue>();
  std::uint64_t wrong = 0;
  const auto produce = [&] {
    for (std::uint64_t value = 1; value <= items; ++value) {
      T item = make_item<T>(value);
      Wait::push(*queue, item);
    }
  };
  const auto consume = [&] {
    std::uint64_t differ = 0;
    T item{};
    for (std::uint64_t expected = 1; expected <= items; ++expected) {
      Wait::pop(*queue, item);
      const std::uint64_t value = value_of(item);
      if (value != expected) [[unlikely]] {
        ++differ;
        expected = std::max(expected, value);  // after a gap, so that it ends in spite of it
      }
    }
    wrong = differ;
  };
  const Usage usage = run_together({{{options.cores[0]}, produce}, {{options.cores[1]}, consume}});
  check_transfer(wrong, Queue::name);
  return usage;
}

// Each item goes to the other core and comes back before the next one leaves.
template <typename Queue, typename T, typename Wait>
Usage round_trip(const Options& options, std::uint64_t trips) {
  const Elsewhere elsewhere;
  const auto there = std::make_unique<Queue>();
  const auto back = std::make_unique<Queue>();
  std::uint64_t wrong = 0;
  const auto ping = [&] {
    std::uint64_t differ = 0;
    for (std::uint64_t value = 1; value <= trips; ++value) {
      T item = make_item<T>(value);
      Wait::push(*there, item);
      Wait::pop(*back, item);
      differ += value_of(item) != value;
    }
    wrong = differ;
  };
  const auto pong = [&] {
    T item{};
    for (std::uint64_t trip = 0; trip < trips; ++trip) {
      Wait::pop(*there, item);
      Wait::push(*back, item);
    }
  };
  const Usage usage = run_together({{{options.cores[0]}, ping}, {{options.cores[1]}, pong}});
  check_transfer(wrong, Queue::name);
  return usage;
}

}  // namespace headrace::bench
