// When a device is done with a piece of work, and what may be used again then. Layer: flow.
//
// Work for a device is queued now and done later, so memory that it reads or writes is in use until
// the work is done, not until it is queued. A DeviceEvent says when that is. What was lent to the
// device, an amount of its memory (Credits) or a staging buffer (StagingSlots), comes back by itself
// when the event fires; no thread waits for it.
//
//   StagingSlots::Slot slot;
//   if (slots.acquire(slot, stop) != Status::ok) return;   // waits while the device reads them all
//   fill(slot.bytes());
//   stream.copy(device_memory, slot.bytes().data(), slot.bytes().size());
//   slot.release_after(stream.record());                   // not before the copy is done
//
// Contract
//   - A Credit or a Slot is used by one thread at a time, and so is whatever is being destroyed;
//     everything else by any.
//   - What it takes to return a credit or a slot is allocated when it is acquired, which throws
//     where memory is short and has then taken nothing. So release_after() cannot fail, and no slot
//     returns while its copy is queued.
//   - A credit returns exactly once. None is lost: an event whose last handle goes without having
//     fired counts as fired, since a device keeps a handle while the work is pending.
//   - Acquiring is first come, first served: a large amount is not passed over for small ones. It
//     returns ok; stopped, timed_out or would_block as its form allows; and has then touched nothing
//     and taken nothing. What can never be had is refused at once with Error(bad_input).
//   - Credits and StagingSlots may be destroyed while the device still holds credits or slots of
//     theirs: the last to come back frees the state and the memory. No thread may wait inside.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>

#include "headrace/channel.h"

namespace headrace {

// A handle: copies speak of the same event.
class DeviceEvent {
 public:
  DeviceEvent();  // not fired

  bool fired() const;
  // Calls `then` once: now and here where the event has fired, otherwise in the thread that fires
  // it. That may be a driver's thread, which serves others too: `then` must not wait, throw or call
  // the device.
  void on_fired(std::function<void()> then) const;
  // The same for calls in this order. Made beforehand, they join the others without an allocation.
  using Calls = std::list<std::function<void()>>;
  void on_fired(Calls then) const noexcept;
  // For the device. Again has no effect.
  void fire() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A queue of work that a device does in order, while the host goes on. src/gpu has one over CUDA.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  // Queues a copy. Both ranges must stay as they are until an event recorded after it has fired.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // An event that fires when everything queued so far is done.
  virtual DeviceEvent record() = 0;
};

// The device is a thread: for tests, and for machines without another device.
class CpuStream final : public DeviceStream {
 public:
  CpuStream();
  ~CpuStream() override;  // does first what is queued
  void copy(void* to, const void* from, std::size_t bytes) override;
  DeviceEvent record() override;
  void run(std::function<void()> work);  // queues anything; it must not throw

 private:
  void serve(std::stop_token stop);

  std::mutex mutex_;
  std::condition_variable_any queued_;
  std::deque<std::function<void()>> queue_;
  std::jthread thread_;  // last: joined first
};

// An amount of something that a device uses, such as bytes of its memory.
class Credits {
 public:
  class Credit;

  // `name` stands in messages and in the wait-for graph. Error(bad_input) where total is 0.
  Credits(std::string name, std::uint64_t total);

  // Puts `amount` into `credit`; what that held before returns.
  Status acquire(Credit& credit, std::uint64_t amount = 1, std::stop_token stop = {});
  Status try_acquire(Credit& credit, std::uint64_t amount = 1);
  Status acquire_for(std::chrono::nanoseconds timeout, Credit& credit, std::uint64_t amount = 1,
                     std::stop_token stop = {});

  std::uint64_t total() const;
  std::uint64_t available() const;  // a snapshot
  std::string describe() const;     // "device memory: 96 of 128 credits in use"

 private:
  struct State;
  Status acquire_until(RealSync::Deadline deadline, Status at_deadline, Credit& credit,
                       std::uint64_t amount, const std::stop_token& stop);

  std::shared_ptr<State> state_;
};

// The right to use an amount, until it is released or destroyed.
class Credits::Credit {
 public:
  Credit() = default;
  Credit(Credit&& other) noexcept { *this = std::move(other); }
  Credit& operator=(Credit&& other) noexcept;
  ~Credit() { release(); }

  std::uint64_t amount() const { return amount_; }  // 0: none
  void release() noexcept;                          // now. For what no work was queued for
  void release_after(const DeviceEvent& event) noexcept;

 private:
  friend class Credits;
  friend class StagingSlots;
  std::uint64_t amount_ = 0;
  DeviceEvent::Calls give_back_;  // one where there is an amount
};

// Buffers of one size that the host fills and a device copies from.
class StagingSlots {
 public:
  class Slot;

  // `memory` has slots * slot_bytes bytes; pinned, where the device demands it.
  StagingSlots(std::string name, std::shared_ptr<std::byte[]> memory, std::size_t slots,
               std::size_t slot_bytes);

  Status acquire(Slot& slot, std::stop_token stop = {});
  Status try_acquire(Slot& slot);
  Status acquire_for(std::chrono::nanoseconds timeout, Slot& slot, std::stop_token stop = {});

  std::size_t available() const { return static_cast<std::size_t>(credits_.available()); }

 private:
  struct State;
  Status take(Status status, Credits::Credit&& credit, Slot& slot);

  Credits credits_;  // one a slot
  std::shared_ptr<State> state_;
};

// One buffer, until it is released or destroyed.
class StagingSlots::Slot {
 public:
  Slot() = default;
  Slot(Slot&& other) noexcept { *this = std::move(other); }
  Slot& operator=(Slot&& other) noexcept;
  ~Slot() { release(); }

  std::span<std::byte> bytes() const { return bytes_; }  // empty: no slot
  void release() noexcept;  // now. For a slot that no copy was queued from
  void release_after(const DeviceEvent& event) noexcept;

 private:
  friend class StagingSlots;
  std::span<std::byte> bytes_;
  DeviceEvent::Calls give_back_;  // the memory, and then its credit, which says that it is free
};

}  // namespace headrace
