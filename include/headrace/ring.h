// The lock-free rings inside channels: bounded in items and bytes, closed at an exact item. They
// never wait; channel.h adds waiting. Layer: flow.
//
// Push, pop and close are linearised: an item is in the ring or it is not, whatever runs at the same
// time. push() that returns anything but done has left the caller's item as it was; pop() has taken
// nothing. Between the publication that others may wait for and the return of push() and pop() lies
// a Sync::light_fence(), so the caller may look at once whether anybody sleeps.
//
// can_pop() and can_push() are for looking once more before going to sleep: whether pop() would say
// anything but empty, push() anything but full. They never err on the side of sleeping: they are
// false only where a later push, pop or close will be followed by a look for sleepers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

namespace headrace {

// overtaken: full, but it had held bytes for a moment, which may have kept another sender out.
enum class Push { done, full, overtaken, closed };
enum class Pop { done, empty, drained };  // drained: closed and empty, for ever

struct RingLimits {
  std::uint64_t items = 1;  // >= 1
  std::uint64_t bytes = 0;  // 0: unbounded and not counted
};

inline constexpr std::size_t kCacheLine = 64;

// Memory for `count` objects of T that the owner makes and ends. It begins a cache line, so that no
// item of one line's size lies on two; or it is the memory `near` something else that the owner has,
// where it fits there.
template <typename T>
class RawArray {
 public:
  explicit RawArray(std::size_t count, std::span<std::byte> near = {})
      : near_(count * sizeof(T) <= near.size() && alignof(T) <= alignof(std::uint64_t)),
        data_(near_ ? reinterpret_cast<T*>(near.data())
                    : static_cast<T*>(::operator new(count * sizeof(T), kAlignment))) {}
  ~RawArray() {
    if (!near_) ::operator delete(data_, kAlignment);
  }
  RawArray(const RawArray&) = delete;
  RawArray& operator=(const RawArray&) = delete;
  T& operator[](std::size_t index) const { return data_[index]; }

 private:
  static constexpr std::align_val_t kAlignment{std::max(alignof(T), kCacheLine)};
  const bool near_;
  T* const data_;
};

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
  static constexpr std::uint64_t kAhead = 8;

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

// Any number of threads push and pop.
//
// A ticket is lap * lap_ + index. Slot i of a fresh ring carries ticket i: whoever advances tail_ from
// a ticket to the next may fill that slot, and marks it ticket + 1, full; whoever advances head_ from
// the ticket may empty it, and marks it with the ticket of the next lap. (D. Vyukov's bounded queue,
// with laps, so that any capacity will do.) Closing sets a bit of tail_: no ticket is given out after
// it, and those before it are redeemed.
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
      if (!head_.compare_exchange_weak(head, next(head), std::memory_order_relaxed)) continue;
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
