// A bounded channel between threads: bounded in items and in bytes. Layer: flow.
//
// Contract
//   - Any number of senders and receivers; items leave in the order in which they entered.
//   - An item handed over is never lost, one not handed over is never counted. A send that
//     returns anything but Status::ok has not touched the caller's item; a receive that returns
//     anything but Status::ok has not touched the caller's variable and has taken nothing.
//   - An item larger than the byte bound is refused at once with Error(bad_input), not a
//     deadlock.
//   - close(): senders get Status::closed; receivers drain what was sent and then get
//     Status::closed. close(error): receivers get the good items and then the error, thrown;
//     senders get it at once. Every later call gets the same answer. The first error wins, also
//     over an earlier plain close().
//   - Stop tokens: an operation that can go ahead at once does; one that has to wait returns
//     Status::stopped when its token is triggered, at the latest when the lock is free.
//   - No thread burns a core while it waits.
//   - Destruction: no operation may be running. Items still inside are destroyed.
//   - Moving a T must not throw.
//
// Nothing here promises a lock: items(), bytes() and closed() are snapshots that may be old when
// read.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "headrace/error.h"

namespace headrace {

enum class Status { ok, would_block, timed_out, stopped, closed };

struct ChannelLimits {
  std::uint64_t items = 1;  // >= 1
  std::uint64_t bytes = 0;  // 0: unbounded
};

template <typename T>
class BoundedChannel {
 public:
  // `name` stands in messages and in the wait-for graph. Error(bad_input) where limits.items is 0.
  BoundedChannel(std::string name, ChannelLimits limits);
  BoundedChannel(const BoundedChannel&) = delete;
  BoundedChannel& operator=(const BoundedChannel&) = delete;

  // Moves `item` in once it fits. `bytes`: its size against the byte bound, until it is received.
  // Returns ok, stopped or closed.
  Status send(T&& item, std::uint64_t bytes = 0, std::stop_token stop = {});
  // Returns ok, would_block or closed.
  Status try_send(T&& item, std::uint64_t bytes = 0);
  // Returns ok, timed_out, stopped or closed.
  Status send_for(std::chrono::nanoseconds timeout, T&& item, std::uint64_t bytes = 0,
                  std::stop_token stop = {});

  // Moves the oldest item into `item`. The forms return as those of send; closed means drained.
  Status receive(T& item, std::stop_token stop = {});
  Status try_receive(T& item);
  Status receive_for(std::chrono::nanoseconds timeout, T& item, std::stop_token stop = {});
  // Waits for one item, then appends what is there, at most `most` >= 1 items, to `items`.
  Status receive_batch(std::vector<T>& items, std::size_t most, std::stop_token stop = {});

  // Idempotent; any thread.
  void close();
  void close(std::exception_ptr error);  // not null

  const std::string& name() const { return name_; }
  const ChannelLimits& limits() const { return limits_; }
  std::uint64_t items() const;
  std::uint64_t bytes() const;
  bool closed() const;           // closed to senders; items may still be inside
  std::string describe() const;  // "features: 4/4 items, 2 GiB of 2 GiB"

 private:
  struct Entry {
    T item;
    std::uint64_t bytes;
  };
  using Lock = std::unique_lock<std::mutex>;
  // How long an operation may wait: not at all, until a time, or (nullopt) as long as it takes.
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  Status send_until(Deadline deadline, Status at_deadline, T& item, std::uint64_t bytes,
                    const std::stop_token& stop);
  Status receive_until(Deadline deadline, Status at_deadline, T& item, const std::stop_token& stop);
  // Waits until `ready` holds: ok, or why it does not. `verb`: words for the wait-for graph.
  template <typename Ready>
  Status wait(Lock& lock, std::condition_variable_any& condition, const char* verb,
              Deadline deadline, Status at_deadline, const std::stop_token& stop, Ready ready);
  bool fits(std::uint64_t bytes) const;
  bool readable() const { return !entries_.empty() || closed_; }
  T take_front();
  void wake_senders(std::size_t freed);
  Status closed_status() const;  // throws the error the channel was closed with
  std::string describe_locked() const;

  const std::string name_;
  const ChannelLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable_any can_send_, can_receive_;
  std::deque<Entry> entries_;
  std::uint64_t bytes_ = 0;
  bool closed_ = false;
  std::exception_ptr error_;
};

}  // namespace headrace

#include "headrace/channel-inl.h"
