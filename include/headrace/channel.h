// A bounded channel between threads: bounded in items and in bytes. Layer: flow.
//
//   BoundedChannel<T>   any number of senders and receivers
//   SpscChannel<T>      one sender and one receiver at a time, several times as fast
//
// Contract
//   - Items leave in the order in which they entered.
//   - An item handed over is never lost, one not handed over is never counted. A send that
//     returns anything but Status::ok leaves the caller's item with the caller; a receive that
//     returns anything but Status::ok has not touched the caller's variable and has taken nothing.
//   - An item larger than the byte bound is refused at once with Error(bad_input), not a
//     deadlock.
//   - close(): senders get Status::closed; receivers drain what was sent and then get
//     Status::closed. close(error): receivers get the good items and then the error, thrown;
//     senders get it at once. The first error wins, also over an earlier plain close(); nothing
//     else changes the answer.
//   - Stop tokens: an operation that can go ahead at once does; one that has to wait returns
//     Status::stopped once its token is triggered.
//   - Waiting: some microseconds of looking again, then sleep. No thread burns a core while it
//     waits, no wake-up is lost (see sync.h; tests/flow/explore goes through the interleavings).
//   - Items take no memory but the constructor's, where limits.items is allocated in full: large
//     items belong behind a pointer.
//   - Destruction: no operation may be running. Items still inside are destroyed.
//   - T: movable, without throwing; receive_batch default constructs it.
//
// No sender or receiver is preferred: a large item may wait while smaller ones pass it. items(),
// bytes() and closed() are snapshots that may be old when read.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "headrace/error.h"
#include "headrace/mpmc_ring.h"
#include "headrace/spsc_ring.h"
#include "headrace/sync.h"
#include "headrace/wait_list.h"

namespace headrace {

enum class Status { ok, would_block, timed_out, stopped, closed };

using ChannelLimits = RingLimits;

template <typename T, template <typename, typename> class Ring, typename Sync = RealSync>
class BasicChannel {
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>);

 public:
  using StopToken = typename Sync::StopToken;

  // `name` stands in messages and in the wait-for graph. Error(bad_input) where limits.items is 0
  // or above 2^32.
  BasicChannel(std::string name, ChannelLimits limits);
  BasicChannel(const BasicChannel&) = delete;
  BasicChannel& operator=(const BasicChannel&) = delete;

  // Moves `item` in once it fits. `bytes`: its size against the byte bound, until it is received.
  // Returns ok, stopped or closed.
  [[gnu::always_inline]] Status send(T&& item, std::uint64_t bytes = 0, const StopToken& stop = {});
  // Returns ok, would_block or closed.
  [[gnu::always_inline]] Status try_send(T&& item, std::uint64_t bytes = 0);
  // Returns ok, timed_out, stopped or closed.
  Status send_for(std::chrono::nanoseconds timeout, T&& item, std::uint64_t bytes = 0,
                  const StopToken& stop = {});

  // Moves the oldest item into `item`. The forms return as those of send; closed means drained.
  [[gnu::always_inline]] Status receive(T& item, const StopToken& stop = {});
  [[gnu::always_inline]] Status try_receive(T& item);
  Status receive_for(std::chrono::nanoseconds timeout, T& item, const StopToken& stop = {});
  // Waits for one item, then appends what is there, at most `most` >= 1 items, to `items`.
  Status receive_batch(std::vector<T>& items, std::size_t most, const StopToken& stop = {});

  // Waits until one of the channels has an item and moves it into `item`; `index`: which one. The
  // search begins after `index` (at first any number), so that a loop serves all of them in turn. A
  // drained channel is passed over, and a wait that has begun watches it no more; closed: all of
  // them are. An error that a channel was closed with is thrown when the search comes to it drained;
  // `index` says which, and the next search begins after it.
  static Status receive_any(std::span<BasicChannel* const> channels, T& item, std::size_t& index,
                            const StopToken& stop = {});

  // Idempotent; any thread.
  void close();
  void close(std::exception_ptr error);  // not null

  const std::string& name() const { return name_; }
  const ChannelLimits& limits() const { return ring_.limits(); }
  std::uint64_t items() const { return ring_.items(); }
  std::uint64_t bytes() const { return ring_.bytes(); }  // 0 where they are not bounded
  bool closed() const { return ring_.closed(); }         // to senders; items may still be inside
  std::string describe() const;                          // "features: 4/4 items, 2 GiB of 2 GiB"

 private:
  using Deadline = typename Sync::Deadline;
  using Lock = std::lock_guard<typename Sync::Mutex>;
  enum Side : std::size_t { kSender, kReceiver };
  class Place;

  static constexpr std::uint64_t kMostItems = std::uint64_t{1} << 32;
  const ChannelLimits& checked(const ChannelLimits& limits) const;
  void check_size(std::uint64_t bytes) const {
    if (limits().bytes != 0 && bytes > limits().bytes) [[unlikely]]
      refuse_size(bytes);
  }
  [[noreturn]] void refuse_size(std::uint64_t bytes) const;

  // One attempt; would_block: nothing happened. Throw the error the channel was closed with.
  [[gnu::always_inline]] Status attempt_send(T& item, std::uint64_t bytes);
  [[gnu::always_inline]] Status attempt_receive(T& item);
  Status received(Pop outcome) const;
  Status closed_status() const;

  // Attempts until it does not block, the deadline passes or the stop token is triggered.
  Status send_until(const Deadline& deadline, T& item, std::uint64_t bytes, const StopToken& stop);
  template <typename Attempt>
  Status receive_until(const Deadline& deadline, const StopToken& stop, Attempt attempt);
  // A wake-up that came to a wait which ends with an exception belongs to the next sleeper.
  template <typename Wait>
  Status pass_on_where_it_throws(Wait wait_for);
  template <typename Attempt, typename Sleep>
  static Status wait(const Deadline& deadline, const StopToken& stop, Attempt attempt, Sleep sleep);
  static void park(typename Sync::Parker& parker, const Deadline& deadline, const StopToken& stop);

  // Whoever succeeds looks whether somebody sleeps who can go ahead now, on either side: a sleeper
  // that was woken for an item may have found another still being put down in front of it.
  void look_for_sleepers() {
    if (sleeping_.load(std::memory_order_relaxed)) [[unlikely]]
      wake_sleepers();
  }
  void wake_sleepers();
  void count_sleepers();  // into sleeping_; under the mutex

  const std::string name_;
  Ring<T, Sync> ring_;
  // Read for every item, written only when somebody goes to sleep or is woken.
  alignas(kCacheLine) typename Sync::template Atomic<bool> sleeping_{false};
  mutable typename Sync::Mutex mutex_;  // guards what follows, and writing what precedes
  WaitList<Sync> sleepers_[2];          // by Side
  std::exception_ptr error_;
};

template <typename T>
using BoundedChannel = BasicChannel<T, MpmcRing>;
template <typename T>
using SpscChannel = BasicChannel<T, SpscRing>;

}  // namespace headrace

#include "headrace/channel-inl.h"
