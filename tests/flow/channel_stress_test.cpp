// Channels under many threads, for both kinds unless it says otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "flow/channel_kinds.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;

template <typename Kind>
class ChannelStress : public testing_channels::ChannelTest<Kind> {};
TYPED_TEST_SUITE(ChannelStress, testing_channels::Kinds);

// A big item at the head of the senders must not be passed over for ever by a wake-up that went to
// another.
TEST(ManySenders, SendersOfDifferentSizesAreAllServed) {
  BoundedChannel<int> channel("bytes", {.items = 8, .bytes = 8});
  std::vector<std::jthread> senders;
  for (int size = 1; size <= 8; ++size)
    senders.emplace_back([&channel, size] {
      for (int i = 0; i < 50; ++i) ASSERT_EQ(channel.send(int(size), size), Status::ok);
    });
  int got = 0, sum = 0;
  for (int i = 0; i < 400; ++i) {
    ASSERT_EQ(channel.receive_for(10s, got), Status::ok);
    EXPECT_LE(channel.bytes(), 8u);
    sum += got;
  }
  EXPECT_EQ(sum, 50 * 36);
}

// Senders and receivers with time limits and stop tokens against a close at a random moment, plain
// or with an error: what was accepted is what came out, each item once, in each sender's order.
TYPED_TEST(ChannelStress, StressWithCloseStopAndErrorsLosesNothing) {
  constexpr int kThreads = TypeParam::kThreads;
  for (unsigned round = 0; round < 150; ++round) {
    std::mt19937 random(round);
    typename TestFixture::template Of<std::uint64_t> channel(
        "stress", {.items = 1 + random() % 3, .bytes = 1 + random() % 9});
    std::stop_source stop;
    std::vector<std::uint64_t> sent(kThreads, 0);
    std::vector<std::vector<std::uint64_t>> received(kThreads);
    std::atomic<int> errors = 0;
    const bool with_error = random() % 2 == 0;
    {
      std::vector<std::jthread> receivers, senders;
      for (int id = 0; id < kThreads; ++id) {
        senders.emplace_back([&, id, seed = random()] {
          std::mt19937 dice(seed);
          try {
            for (std::uint64_t i = 0;; i = sent[id]) {
              std::uint64_t item = static_cast<std::uint64_t>(id) << 32 | i;
              const std::uint64_t size = dice() % 2;
              const Status status = dice() % 3 == 0 ? channel.try_send(std::move(item), size)
                                    : dice() % 2 == 0
                                        ? channel.send_for(20us, std::move(item), size)
                                        : channel.send(std::move(item), size, stop.get_token());
              if (status == Status::ok) ++sent[id];
              if (status == Status::closed || status == Status::stopped) return;
            }
          } catch (const Error&) {
            ++errors;
          }
        });
        receivers.emplace_back([&, id, seed = random()] {
          std::mt19937 dice(seed);
          std::vector<std::uint64_t>& mine = received[id];
          try {
            Status status = Status::ok;
            while (status != Status::closed) {
              std::uint64_t item = 0;
              if (dice() % 4 == 0) {
                status = channel.receive_batch(mine, 1 + dice() % 4);
                continue;
              }
              status = dice() % 2 == 0 ? channel.receive_for(20us, item) : channel.receive(item);
              if (status == Status::ok) mine.push_back(item);
            }
          } catch (const Error&) {
            ++errors;
          }
        });
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      if (random() % 2 == 0) stop.request_stop();
      if (with_error) {
        channel.close(std::make_exception_ptr(Error(ErrorCode::io, "planted")));
      } else {
        channel.close();
      }
    }
    std::vector<std::vector<std::uint64_t>> by_sender(kThreads);
    for (const auto& mine : received) {
      std::vector<std::uint64_t> last(kThreads, 0);
      for (const std::uint64_t item : mine) {
        const std::uint64_t number = (item & 0xffffffff) + 1;
        ASSERT_GT(number, last[item >> 32]) << "a receiver saw a sender's items out of order";
        last[item >> 32] = number;
        by_sender[item >> 32].push_back(number - 1);
      }
    }
    for (int id = 0; id < kThreads; ++id) {
      std::sort(by_sender[id].begin(), by_sender[id].end());
      ASSERT_EQ(by_sender[id].size(), sent[id]) << "round " << round;
      for (std::uint64_t i = 0; i < sent[id]; ++i) ASSERT_EQ(by_sender[id][i], i);
    }
    ASSERT_EQ(channel.bytes(), 0u);
    if (with_error) {
      ASSERT_GE(errors, kThreads) << "each receiver must see the error";
    } else {
      ASSERT_EQ(errors, 0);
    }
  }
}

// An item delivered and its reader cancelled at the same time (moonbitlang/async#448): the item is
// the reader's or still inside, never gone.
TYPED_TEST(ChannelStress, CancelledReceiveLosesNothing) {
  for (int round = 0; round < 2000; ++round) {
    typename TestFixture::template Of<int> channel("handover", {.items = 1});
    std::stop_source stop;
    std::atomic<bool> go = false;
    Status status = Status::ok;
    int got = 0;
    std::jthread reader([&] {
      while (!go) {
      }
      status = round % 2 == 0 ? channel.receive(got, stop.get_token())
                              : channel.receive_for(std::chrono::microseconds(round % 50), got);
    });
    std::jthread canceller([&] {
      while (!go) {
      }
      if (round % 2 == 0) stop.request_stop();
    });
    go = true;
    ASSERT_EQ(channel.send(1), Status::ok);
    reader.join();
    ASSERT_EQ(channel.items(), status == Status::ok ? 0u : 1u);
    ASSERT_EQ(got, status == Status::ok ? 1 : 0);
  }
}

// Memory that items hold, counted by their allocator.
std::atomic<std::int64_t> held_bytes = 0, most_held_bytes = 0;
template <typename T>
struct CountingAllocator : std::allocator<T> {
  using value_type = T;
  template <typename U>
  struct rebind {
    using other = CountingAllocator<U>;
  };
  T* allocate(std::size_t count) {
    const std::int64_t now = held_bytes += static_cast<std::int64_t>(count);
    std::int64_t most = most_held_bytes;
    while (most < now && !most_held_bytes.compare_exchange_weak(most, now)) {
    }
    return std::allocator<T>::allocate(count);
  }
  void deallocate(T* memory, std::size_t count) {
    held_bytes -= static_cast<std::int64_t>(count);
    std::allocator<T>::deallocate(memory, count);
  }
};

// What the allocator sees is never above the bound and one item in each thread's hands.
TYPED_TEST(ChannelStress, BytesInFlightStayBelowTheBound) {
  using Item = std::vector<char, CountingAllocator<char>>;
  constexpr std::int64_t kBound = 10'000, kLargest = 3'000, kThreads = TypeParam::kThreads;
  held_bytes = most_held_bytes = 0;
  {
    typename TestFixture::template Of<Item> channel("bytes", {.items = 64, .bytes = kBound});
    std::vector<std::jthread> receivers;
    for (int i = 0; i < kThreads; ++i)
      receivers.emplace_back([&] {
        Item item;
        while (channel.receive(item) == Status::ok) item = Item();
      });
    {
      std::vector<std::jthread> senders;
      for (unsigned id = 0; id < kThreads; ++id)
        senders.emplace_back([&channel, id] {
          std::mt19937 dice(id);
          for (int i = 0; i < 2000; ++i) {
            const std::size_t size = 1 + dice() % kLargest;
            ASSERT_EQ(channel.send(Item(size), size), Status::ok);
          }
        });
    }
    channel.close();
  }
  EXPECT_LE(most_held_bytes, kBound + 2 * kThreads * kLargest);
  EXPECT_GT(most_held_bytes, kBound / 2) << "the bound was never near";
  EXPECT_EQ(held_bytes, 0);
}

}  // namespace
}  // namespace headrace
