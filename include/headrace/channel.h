// A bounded channel between threads: bounded in items and in bytes. Layer: flow.
//
// Contract
//   - Any number of senders and receivers; items leave in the order in which they entered.
//   - An item handed over is never lost, one not handed over is never counted: each operation says which.
//   - An item larger than the byte bound is refused at once with Error(bad_input), not a deadlock.
//   - close(): senders get Status::closed, receivers drain what was sent and then get Status::closed.
//     close(error): the error is thrown to receivers after the good items, and to senders at once.
//   - stop tokens: an operation given one returns Status::stopped when it is triggered while waiting, and
//     has then neither taken nor delivered anything.
//   - No thread burns a core while it waits.
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
#include <utility>

#include "headrace/error.h"

namespace headrace {

enum class Status { ok, would_block, timed_out, stopped, closed };

struct ChannelLimits {
  std::uint64_t items = 1;   // >= 1
  std::uint64_t bytes = 0;   // 0: unbounded
};

template <typename T>
class BoundedChannel;  // defined in channel-inl.h

}  // namespace headrace
