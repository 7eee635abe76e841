// Nanoseconds since the start of a run, read from the CPU's cycle counter and kept in step with
// CLOCK_MONOTONIC. Layer: record, private.
//
// The counter costs half of a clock_gettime(), but its rate is known only by comparing it with the
// clock, and the clock is itself slewed all the time. So time is a chain of straight lines, each
// valid for a window of 16 ms: the reader that finds the newest line past its end compares the two
// clocks (about 0.3 us) and starts another where the clock is, or where the last line ended if that
// is later, aimed at where the clock will be at the end of the window. Hence readings never go
// back, on one thread or from one thread to the next, and stay some 10 ns from the clock. Where its
// rate changes by r ppm they are off by up to 16 r ns, for one window.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <mutex>

namespace headrace {

// What a RunClock reads. A test puts simulated clocks in its place.
struct MachineClocks {
  static bool has_counter();  // x86-64 whose CPUID says that the counter's rate is invariant
  static std::uint64_t ticks() noexcept {
#ifdef __x86_64__
    // The fence keeps the reading behind what comes before it, above all behind taking a lock.
    __builtin_ia32_lfence();
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
  }
  static std::int64_t monotonic_ns() noexcept;
};

template <typename Clocks>
class BasicRunClock {
 public:
  BasicRunClock() { start(); }

  // Thread-safe. Where there is no counter to trust this is CLOCK_MONOTONIC.
  std::int64_t now_ns() const noexcept {
    for (;;) {
      const Line line = newest();
      const std::uint64_t passed = Clocks::ticks() - line.ticks;
      if (passed < line.length) [[likely]]
        return line.at(passed);
      if (line.length == 0) return std::max(Clocks::monotonic_ns() - start_ns_, line.ns);
      // Another core's counter may be a few ticks behind the one that began the line.
      if (-passed < line.length) return line.ns;
      extend(line);
    }
  }

  bool uses_counter() const noexcept { return newest().length > 0; }

 private:
  static constexpr std::int64_t kFirstWindowNs = 100'000, kWindowNs = 16'000'000;
  static constexpr std::int64_t kSlowestReadingNs = 1000;
  // The clock is never slewed by as much; a counter whose rate changes, or that is reset, is off by
  // more.
  static constexpr double kDisagreement = 0.1;

  // `length` 0: the counter is not used (any more), and `ns` is the least that may be said.
  struct Line {
    std::uint64_t ticks = 0;
    std::int64_t ns = 0;
    std::uint64_t slope = 0;  // nanoseconds a tick, times 2^32
    std::uint64_t length = 0;

    std::int64_t at(std::uint64_t passed) const {
      return ns + static_cast<std::int64_t>((passed * slope) >> 32);  // under 2^24 * 2^32
    }
  };

  // The same instant on both clocks, known to within `width`.
  struct Pair {
    std::uint64_t ticks = 0, width = ~std::uint64_t{0};
    std::int64_t ns = 0;
  };
  static Pair compare() noexcept {
    Pair best;
    for (int i = 0; i < 5; ++i) {
      const std::uint64_t before = Clocks::ticks();
      const std::int64_t ns = Clocks::monotonic_ns();
      const std::uint64_t width = Clocks::ticks() - before;
      if (width < best.width) best = {before + width / 2, width, ns};
    }
    return best;
  }

  void start() {
    const Pair first = compare();
    start_ns_ = first.ns;
    if (!Clocks::has_counter()) return publish({});
    while (Clocks::monotonic_ns() - first.ns < kFirstWindowNs) continue;
    last_ = compare();
    ns_per_tick_ =
        static_cast<double>(last_.ns - first.ns) / static_cast<double>(last_.ticks - first.ticks);
    // Where the clock is slow to read the kernel does not take it from the counter, and knows why.
    const bool trusted = ns_per_tick_ > 0.05 && ns_per_tick_ < 20 &&
                         static_cast<double>(last_.width) * ns_per_tick_ < kSlowestReadingNs;
    publish(trusted ? line_from(last_, 0) : Line{});
  }

  void extend(const Line& ended) const noexcept {
    const std::lock_guard lock(mutex_);
    if (newest().ticks != ended.ticks) return;  // another thread was faster
    const Pair now = compare();
    const auto ticks = static_cast<double>(static_cast<std::int64_t>(now.ticks - last_.ticks));
    const auto ns = static_cast<double>(now.ns - last_.ns);
    const double tolerance =
        kDisagreement * ns + static_cast<double>(now.width + last_.width) * ns_per_tick_;
    const std::int64_t floor = ended.at(ended.length);
    if (ticks <= 0 || std::abs(ticks * ns_per_tick_ - ns) > tolerance)
      return publish({.ticks = now.ticks, .ns = floor});
    ns_per_tick_ = ns / ticks;
    last_ = now;
    window_ns_ = std::min(2 * window_ns_, kWindowNs);
    publish(line_from(now, floor));
  }

  Line line_from(const Pair& now, std::int64_t floor) const noexcept {
    const std::int64_t clock = now.ns - start_ns_;
    const double length = static_cast<double>(window_ns_) / ns_per_tick_;
    Line line{.ticks = now.ticks, .ns = std::max(clock, floor)};
    line.length = static_cast<std::uint64_t>(length);
    const std::int64_t rise = std::max<std::int64_t>(clock + window_ns_ - line.ns, 0);
    line.slope = static_cast<std::uint64_t>(static_cast<double>(rise) / length * 0x1p32);
    return line;
  }

  // The newest line is in slot `version_ % 2`, and the other one is written next. Whoever reads a
  // word of a line that is not yet published also sees, by acquire and release, that `version_` has
  // changed since.
  void publish(const Line& line) const noexcept {
    const std::uint64_t version = version_.load(std::memory_order_relaxed) + 1;
    Slot& slot = slots_[version % 2];
    slot[0].store(line.ticks, std::memory_order_release);
    slot[1].store(static_cast<std::uint64_t>(line.ns), std::memory_order_release);
    slot[2].store(line.slope, std::memory_order_release);
    slot[3].store(line.length, std::memory_order_release);
    version_.store(version, std::memory_order_release);
  }

  Line newest() const noexcept {
    for (;;) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      const Slot& slot = slots_[version % 2];
      const Line line{.ticks = slot[0].load(std::memory_order_acquire),
                      .ns = static_cast<std::int64_t>(slot[1].load(std::memory_order_acquire)),
                      .slope = slot[2].load(std::memory_order_acquire),
                      .length = slot[3].load(std::memory_order_acquire)};
      if (version_.load(std::memory_order_relaxed) == version) return line;
    }
  }

  using Slot = std::array<std::atomic<std::uint64_t>, 4>;
  mutable std::array<Slot, 2> slots_;
  mutable std::atomic<std::uint64_t> version_{0};
  std::int64_t start_ns_ = 0;
  // Of extend(), for which readers take turns; at most one in 16 ms has to. A reader that did not
  // wait would have to guess where the next line starts: too early after a pause, or too late.
  mutable std::mutex mutex_;
  mutable Pair last_;
  mutable double ns_per_tick_ = 1;
  mutable std::int64_t window_ns_ = kFirstWindowNs;
};

using RunClock = BasicRunClock<MachineClocks>;

}  // namespace headrace
