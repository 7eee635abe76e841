// The ring of SpscChannel. Layer: flow.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "headrace/ring.h"

namespace headrace {

// Asks for the line at `address` in order to write to it.
inline void prefetch_for_write(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

// One thread pushes and one pops, at a time; any thread may close.
//
// Each side owns its counter and keeps a copy of the other's, which it renews only when the ring
// seems full or empty. So in the middle of a stream the two share no cache line but the items'.
// Each look takes the other's line away from it, so who has caught up in a large ring lets the other
// go some items ahead first: a sender when it finds the ring full, a receiver after a short run. One
// that waits for a single item, as in a conversation, looks at once.
template <typename T, typename Sync>
class SpscRing {
 public:
  explicit SpscRing(RingLimits limits)
      : limits_(limits),
        mask_(std::bit_ceil(limits.items) - 1),
        slots_(mask_ + 1, near_),
        sizes_(limits.bytes != 0 ? new std::uint64_t[mask_ + 1] : nullptr) {}

  ~SpscRing() {
    for (std::uint64_t i = head_.load(); i != tail_.load(); ++i) slots_[i & mask_].~T();
  }

  [[gnu::always_inline]] Push push(T& item, std::uint64_t bytes) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (closing_.load(std::memory_order_relaxed)) return Push::closed;
    if (tail - sender_.head >= limits_.items) {
      sender_.head = head_.load(std::memory_order_acquire);
      if (tail - sender_.head >= limits_.items) {
        Sync::relax(pauses_);
        return Push::full;
      }
    }
    if (sizes_) {
      if (!bytes_fit(bytes)) return Push::full;
      sizes_[tail & mask_] = bytes;
      bytes_in_.store(bytes_in_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    }
    if constexpr (sizeof(T) >= kCacheLine / 2)
      if (tail + kAhead - sender_.head < limits_.items)
        prefetch_for_write(&slots_[(tail + kAhead) & mask_]);
    new (&slots_[tail & mask_]) T(std::move(item));
    tail_.store(tail + 1, std::memory_order_release);
    Sync::light_fence();
    if (closing_.load(std::memory_order_relaxed)) [[unlikely]]
      return settle(item, tail);
    return Push::done;
  }

  [[gnu::always_inline]] Pop pop(T& item) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == receiver_.tail) {
      const Pop status = renew_tail(head);
      if (status != Pop::done) return status;
    }
    T& slot = slots_[head & mask_];
    item = std::move(slot);
    slot.~T();
    if (sizes_)
      bytes_out_.store(bytes_out_.load(std::memory_order_relaxed) + sizes_[head & mask_],
                       std::memory_order_release);
    head_.store(head + 1, std::memory_order_release);
    Sync::light_fence();
    return Pop::done;
  }

  // After the fence every push either is in tail_ or will see that the ring is closing, and whoever
  // sees a later tail_ will see so as well. So what is in tail_ now are the items that count.
  void close() {
    const std::lock_guard lock(closing_mutex_);
    if (closing_.load()) return;
    closing_.store(true);
    Sync::heavy_fence();
    final_tail_ = tail_.load(std::memory_order_acquire);
  }

  const RingLimits& limits() const { return limits_; }
  bool closed() const { return closing_.load(std::memory_order_relaxed); }
  bool can_pop() const {
    return head_.load(std::memory_order_relaxed) != tail_.load(std::memory_order_acquire) ||
           closed();
  }
  bool can_push(std::uint64_t bytes) const {
    return closed() ||
           (items() < limits_.items && (!sizes_ || bytes <= limits_.bytes - this->bytes()));
  }
  std::uint64_t items() const {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    const std::uint64_t count = tail_.load(std::memory_order_acquire) - head;
    return std::min(count, limits_.items);  // the two loads are of different moments
  }
  std::uint64_t bytes() const {
    const std::uint64_t out = bytes_out_.load(std::memory_order_acquire);
    return std::min(bytes_in_.load(std::memory_order_acquire) - out, limits_.bytes);
  }

 private:
  bool bytes_fit(std::uint64_t bytes) {
    const std::uint64_t in = bytes_in_.load(std::memory_order_relaxed);
    if (bytes <= limits_.bytes - (in - sender_.bytes_out)) return true;
    sender_.bytes_out = bytes_out_.load(std::memory_order_acquire);
    return bytes <= limits_.bytes - (in - sender_.bytes_out);
  }

  // A push that raced with close(): it counts, or the item goes back to its owner.
  [[gnu::noinline]] Push settle(T& item, std::uint64_t tail) {
    const std::lock_guard lock(closing_mutex_);
    if (tail < final_tail_) return Push::done;
    T& slot = slots_[tail & mask_];
    item = std::move(slot);
    slot.~T();
    tail_.store(tail, std::memory_order_release);
    if (sizes_)
      bytes_in_.store(bytes_in_.load(std::memory_order_relaxed) - sizes_[tail & mask_],
                      std::memory_order_relaxed);
    return Push::closed;
  }

  // Called where what was seen is used up. The order of the two loads matters: see close().
  [[gnu::noinline]] Pop renew_tail(std::uint64_t head) {
    const std::uint64_t run = head - std::exchange(receiver_.begun, head);
    if (run != 0 && run < kShortRun) Sync::relax(run == 1 ? pauses_ / 4 : pauses_);
    receiver_.tail = tail_.load(std::memory_order_acquire);
    if (closing_.load(std::memory_order_relaxed)) [[unlikely]] {
      const std::lock_guard lock(closing_mutex_);
      receiver_.tail = final_tail_;
      return head == receiver_.tail ? Pop::drained : Pop::done;
    }
    return head == receiver_.tail ? Pop::empty : Pop::done;
  }

  // Items ahead of the one being written whose line is fetched already: the receiver had it last, and
  // a store that waits for its line holds up those behind it.
  static constexpr std::uint64_t kAhead = 16;

  const RingLimits limits_;
  const std::uint64_t mask_;
  static constexpr std::uint64_t kShortRun = 64;

  // Before a side that has caught up with the other looks again, where the ring is large.
  const std::uint32_t pauses_ =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(limits_.items / 64, 16));
  const RawArray<T> slots_;
  const std::unique_ptr<std::uint64_t[]> sizes_;  // of the items; null: bytes are unbounded
  typename Sync::template Atomic<bool> closing_{false};
  typename Sync::Mutex closing_mutex_;
  std::uint64_t final_tail_ = 0;  // once closing_, under the mutex

  // Written by the sender.
  alignas(kCacheLine) typename Sync::template Atomic<std::uint64_t> tail_{0};
  typename Sync::template Atomic<std::uint64_t> bytes_in_{0};
  struct {
    std::uint64_t head = 0, bytes_out = 0;  // the receiver's, as last seen
  } sender_;
  // The items of a small ring: whoever fetches tail_ has them as well.
  alignas(std::uint64_t) std::byte near_[kCacheLine - 4 * sizeof(std::uint64_t)];

  // Written by the receiver.
  alignas(kCacheLine) typename Sync::template Atomic<std::uint64_t> head_{0};
  typename Sync::template Atomic<std::uint64_t> bytes_out_{0};
  struct {
    std::uint64_t tail = 0;   // the sender's, as last seen
    std::uint64_t begun = 0;  // head_ when it was last looked at
  } receiver_;
};

}  // namespace headrace
