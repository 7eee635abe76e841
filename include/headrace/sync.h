// What channels synchronise with, as a policy: threads and futexes in a program, or a scheduler that
// explores interleavings in a test (tests/flow/explore). Layer: flow.
//
// The protocol of a channel is one pattern, twice: publish something, then look whether anybody
// sleeps for it; announce that one sleeps, then look whether there is something. Each side needs a
// full barrier between its two steps, or both can miss the other. The first side runs for every
// item and the second only before it sleeps, so the second pays for both: light_fence() is nothing
// but an order to the compiler, and heavy_fence() makes every running thread of the process pass a
// full barrier (Linux membarrier(2)). Where the kernel has no membarrier both are full barriers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>

namespace headrace {

// The synchronisation of a program. A policy has these public members, and no others are used.
struct RealSync {
  template <typename T>
  using Atomic = std::atomic<T>;
  using Mutex = std::mutex;
  using StopToken = std::stop_token;
  template <typename Callback>
  using StopCallback = std::stop_callback<Callback>;
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;  // nullopt: none

  static void light_fence() noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!asymmetric) full_fence();
  }
  static void heavy_fence() noexcept;

  static void relax(std::uint32_t pauses) noexcept;  // some nanoseconds each

  static Deadline after(std::chrono::nanoseconds timeout);  // none where the clock would overflow
  static bool passed(const Deadline& deadline) {
    return deadline && *deadline <= std::chrono::steady_clock::now();
  }

  // One thread's place to sleep. An unpark() that comes first is kept: the next park() returns.
  class Parker {
   public:
    // Sleeps until unpark() or the deadline.
    void park(const Deadline& deadline) noexcept;
    void unpark() noexcept;  // any thread, any number of times

   private:
    enum : std::uint32_t { awake, token, asleep };
    std::atomic<std::uint32_t> state_{awake};
  };

  // The short wait before the long one: some pauses, then a few turns given to other threads.
  class Spinner {
   public:
    bool spin() noexcept;  // false: it is time to sleep

   private:
    std::uint32_t turns_ = 0;
  };

 private:
  static void full_fence() noexcept;
  static const bool asymmetric;  // the kernel has membarrier
};

}  // namespace headrace
