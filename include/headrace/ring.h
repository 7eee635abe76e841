// What the rings inside channels have in common: spsc_ring.h for one sender and one receiver,
// mpmc_ring.h for many. Bounded in items and bytes, closed at an exact item. They do not wait for one
// another, a few pauses apart; channel.h adds waiting. Layer: flow.
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

}  // namespace headrace
