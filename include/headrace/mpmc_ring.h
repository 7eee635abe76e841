// The ring of BoundedChannel. Layer: flow.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "headrace/ring.h"

namespace headrace {

// Any number of threads push and pop.
//
// A ticket is lap * lap_ + index. Slot i of a fresh ring carries ticket i: whoever advances tail_ from
// a ticket to the next may fill that slot, and marks it ticket + 1, full; whoever advances head_ from
// the ticket may empty it, and marks it with the ticket of the next lap. (D. Vyukov's bounded queue,
// with laps, so that any capacity will do.) Closing sets a bit of tail_: no ticket is given out after
// it, and those before it are redeemed. A thread that is stopped between taking a ticket and redeeming
// it holds up those behind it, who then sleep.
template <typename T, typename Sync>
class MpmcRing {
 public:
  explicit MpmcRing(RingLimits limits)
      : limits_(limits), lap_(std::bit_ceil(limits.items + 1)), slots_(limits.items) {
    for (std::uint64_t i = 0; i < limits_.items; ++i) (new (&slots_[i]) Slot)->ticket.store(i);
  }

  ~MpmcRing() {
    for (std::uint64_t i = 0; i < limits_.items; ++i) {
      if (slots_[i].ticket.load() % lap_ != i) slots_[i].item().~T();
      slots_[i].~Slot();
    }
  }

  [[gnu::always_inline]] Push push(T& item, std::uint64_t bytes) {
    bool reserved = false;
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    while (true) {
      if (tail & kClosed) return give_back(reserved, bytes), Push::closed;
      Slot& slot = slot_of(tail);
      const std::uint64_t ticket = slot.ticket.load(std::memory_order_acquire);
      if (ticket < tail) return give_back(reserved, bytes) ? Push::overtaken : Push::full;
      if (ticket > tail) {  // somebody was faster
        tail = tail_.load(std::memory_order_relaxed);
        continue;
      }
      // After the look at the slot: so only a sender that was overtaken gives bytes back.
      if (limits_.bytes != 0 && !reserved && !(reserved = reserve(bytes))) return Push::full;
      if (!tail_.compare_exchange_weak(tail, next(tail), std::memory_order_relaxed)) continue;
      new (slot.memory) T(std::move(item));
      slot.bytes = bytes;
      slot.ticket.store(tail + 1, std::memory_order_release);
      Sync::light_fence();
      return Push::done;
    }
  }

  [[gnu::always_inline]] Pop pop(T& item) {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    while (true) {
      Slot& slot = slot_of(head);
      const std::uint64_t ticket = slot.ticket.load(std::memory_order_acquire);
      // Not filled, though its ticket may have been given out, or not yet emptied by another.
      if (ticket <= head) return drained_at(head) ? Pop::drained : Pop::empty;
      if (ticket != head + 1) {  // somebody was faster
        head = head_.load(std::memory_order_relaxed);
        continue;
      }
      if (!head_.compare_exchange_weak(head, next(head), std::memory_order_release)) continue;
      item = std::move(slot.item());
      slot.item().~T();
      if (limits_.bytes != 0) bytes_.fetch_sub(slot.bytes, std::memory_order_relaxed);
      slot.ticket.store(head + lap_, std::memory_order_release);
      Sync::light_fence();
      return Pop::done;
    }
  }

  void close() { tail_.fetch_or(kClosed); }

  const RingLimits& limits() const { return limits_; }
  bool closed() const { return (tail_.load(std::memory_order_relaxed) & kClosed) != 0; }
  bool can_pop() const {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    return slot_of(head).ticket.load(std::memory_order_acquire) > head || drained_at(head);
  }
  bool can_push(std::uint64_t bytes) const {
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    return (tail & kClosed) != 0 ||
           (slot_of(tail).ticket.load(std::memory_order_acquire) >= tail &&
            (limits_.bytes == 0 || bytes <= limits_.bytes - this->bytes()));
  }
  std::uint64_t items() const {
    const std::uint64_t head = count(head_.load(std::memory_order_acquire));
    const std::uint64_t tail = count(tail_.load(std::memory_order_acquire) & ~kClosed);
    return std::min(tail - head, limits_.items);  // the two loads are of different moments
  }
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;

  struct Slot {
    typename Sync::template Atomic<std::uint64_t> ticket{0};
    std::uint64_t bytes = 0;
    alignas(T) std::byte memory[sizeof(T)];
    T& item() { return *std::launder(reinterpret_cast<T*>(memory)); }
  };

  Slot& slot_of(std::uint64_t ticket) const { return slots_[ticket & (lap_ - 1)]; }
  std::uint64_t next(std::uint64_t ticket) const {
    const std::uint64_t index = ticket & (lap_ - 1);
    return index + 1 < limits_.items ? ticket + 1 : ticket - index + lap_;
  }
  // Closed, and the ticket that follows the last one given out is `head`.
  bool drained_at(std::uint64_t head) const {
    return tail_.load(std::memory_order_acquire) == (head | kClosed);
  }
  // Tickets given out before this one.
  std::uint64_t count(std::uint64_t ticket) const {
    return ticket / lap_ * limits_.items + (ticket & (lap_ - 1));
  }

  bool reserve(std::uint64_t bytes) {
    std::uint64_t now = bytes_.load(std::memory_order_relaxed);
    do {
      if (bytes > limits_.bytes - now) return false;
    } while (!bytes_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
    return true;
  }
  bool give_back(bool reserved, std::uint64_t bytes) {
    if (!reserved) return false;
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    Sync::light_fence();
    return true;
  }

  const RingLimits limits_;
  const std::uint64_t lap_;
  const RawArray<Slot> slots_;
  alignas(kCacheLine) typename Sync::template Atomic<std::uint64_t> tail_{0};
  typename Sync::template Atomic<std::uint64_t> bytes_{0};
  alignas(kCacheLine) typename Sync::template Atomic<std::uint64_t> head_{0};
};

}  // namespace headrace
