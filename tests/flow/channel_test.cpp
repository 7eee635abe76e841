#include "headrace/channel.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <random>
#include <thread>

namespace headrace {
namespace {

using namespace std::chrono_literals;

// Every test that does not say otherwise holds for both kinds.
struct Many {
  template <typename T>
  using Of = BoundedChannel<T>;
  static constexpr int kThreads = 3;  // at each side in stress tests
};
struct One {
  template <typename T>
  using Of = SpscChannel<T>;
  static constexpr int kThreads = 1;
};
template <typename Kind>
class Channel : public testing::Test {
 public:
  template <typename T>
  using Of = typename Kind::template Of<T>;
};
using Kinds = testing::Types<Many, One>;
TYPED_TEST_SUITE(Channel, Kinds);

TYPED_TEST(Channel, DeliversInOrderAndDrainsAfterClose) {
  typename TestFixture::template Of<int> channel("numbers", {.items = 3});
  EXPECT_EQ(channel.try_send(1), Status::ok);
  EXPECT_EQ(channel.try_send(2), Status::ok);
  EXPECT_EQ(channel.try_send(3), Status::ok);
  EXPECT_EQ(channel.try_send(4), Status::would_block);
  channel.close();
  EXPECT_EQ(channel.try_send(4), Status::closed);
  int got = 0;
  for (int expected = 1; expected <= 3; ++expected) {
    EXPECT_EQ(channel.receive(got), Status::ok);
    EXPECT_EQ(got, expected);
  }
  EXPECT_EQ(channel.receive(got), Status::closed);
  EXPECT_EQ(channel.try_receive(got), Status::closed);
  EXPECT_EQ(got, 3) << "a receive that took nothing must not touch the variable";
}

TYPED_TEST(Channel, ErrorComesAfterTheGoodItemsAndToSendersAtOnce) {
  typename TestFixture::template Of<int> channel("numbers", {.items = 2});
  channel.try_send(7);
  channel.close(std::make_exception_ptr(Error(ErrorCode::io, "disk gone")));
  channel.close();
  EXPECT_THROW(channel.try_send(8), Error);
  int got = 0;
  EXPECT_EQ(channel.receive(got), Status::ok);
  EXPECT_EQ(got, 7);
  for (int again = 0; again < 2; ++again) EXPECT_THROW(channel.receive(got), Error);
}

TYPED_TEST(Channel, ErrorAfterPlainCloseIsNotSwallowed) {
  typename TestFixture::template Of<int> channel("numbers", {.items = 2});
  channel.close();
  channel.close(std::make_exception_ptr(Error(ErrorCode::io, "first")));
  channel.close(std::make_exception_ptr(Error(ErrorCode::io, "second")));
  int got = 0;
  try {
    channel.receive(got);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
}

TYPED_TEST(Channel, RefusesWhatCanNeverFit) {
  EXPECT_THROW(typename TestFixture::template Of<int>("none", {.items = 0}), Error);
  typename TestFixture::template Of<int> channel("features", {.items = 4, .bytes = 100});
  EXPECT_EQ(channel.try_send(1, 100), Status::ok);
  try {
    channel.send(2, 101);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("features"), std::string::npos);
  }
  EXPECT_EQ(channel.items(), 1u);
  EXPECT_EQ(channel.describe(), "features: 1/4 items, 100 B of 100 B");
}

TYPED_TEST(Channel, ItemStaysWithTheCallerUnlessSent) {
  typename TestFixture::template Of<std::unique_ptr<int>> channel("pointers", {.items = 1});
  EXPECT_EQ(channel.try_send(std::make_unique<int>(1)), Status::ok);
  auto mine = std::make_unique<int>(2);
  EXPECT_EQ(channel.try_send(std::move(mine)), Status::would_block);
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(channel.send_for(1ms, std::move(mine)), Status::timed_out);
  ASSERT_NE(mine, nullptr);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(channel.send(std::move(mine), 0, stop.get_token()), Status::stopped);
  ASSERT_NE(mine, nullptr);
  channel.close();
  EXPECT_EQ(channel.send(std::move(mine)), Status::closed);
  ASSERT_NE(mine, nullptr);
}

TYPED_TEST(Channel, WaitsEndByItemTimeStopAndClose) {
  typename TestFixture::template Of<int> channel("numbers", {.items = 1});
  int got = 0;
  EXPECT_EQ(channel.receive_for(1ms, got), Status::timed_out);
  {
    std::jthread sender([&] { std::this_thread::sleep_for(5ms), channel.send(1); });
    EXPECT_EQ(channel.receive_for(10s, got), Status::ok);
  }
  {
    std::stop_source stop;
    std::jthread stopper([&] { std::this_thread::sleep_for(5ms), stop.request_stop(); });
    EXPECT_EQ(channel.receive(got, stop.get_token()), Status::stopped);
  }
  {
    std::jthread closer([&] { std::this_thread::sleep_for(5ms), channel.close(); });
    EXPECT_EQ(channel.receive(got), Status::closed);
  }
}

TYPED_TEST(Channel, BatchReceiveTakesWhatIsThere) {
  typename TestFixture::template Of<int> channel("numbers", {.items = 5});
  for (int i = 0; i < 5; ++i) channel.try_send(int(i));
  std::vector<int> got = {-1};
  EXPECT_EQ(channel.receive_batch(got, 3), Status::ok);
  EXPECT_EQ(channel.receive_batch(got, 3), Status::ok);
  EXPECT_EQ(got, (std::vector<int>{-1, 0, 1, 2, 3, 4}));
  channel.close();
  EXPECT_EQ(channel.receive_batch(got, 3), Status::closed);
}

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

TYPED_TEST(Channel, FollowsAModelThatIsAQueueWithBounds) {
  const bool holds = rc::check(
      "try_ forms equal a deque with two bounds", [](const std::vector<std::uint8_t>& script) {
        const std::uint64_t items = *rc::gen::inRange<std::uint64_t>(1, 5);
        const std::uint64_t bytes = *rc::gen::inRange<std::uint64_t>(8, 20);
        typename TestFixture::template Of<int> channel("model", {.items = items, .bytes = bytes});
        std::deque<std::pair<int, std::uint64_t>> model;
        std::uint64_t held = 0;
        int next = 0;
        for (const std::uint8_t step : script) {
          const std::uint64_t size = step % 8;
          if (step < 128) {
            const bool fits = model.size() < items && held + size <= bytes;
            RC_ASSERT(channel.try_send(int(next), size) ==
                      (fits ? Status::ok : Status::would_block));
            if (fits) model.emplace_back(next, size), held += size;
            ++next;
          } else {
            int got = -1;
            RC_ASSERT(channel.try_receive(got) ==
                      (model.empty() ? Status::would_block : Status::ok));
            if (model.empty()) continue;
            RC_ASSERT(got == model.front().first);
            held -= model.front().second;
            model.pop_front();
          }
          RC_ASSERT(channel.items() == model.size());
          RC_ASSERT(channel.bytes() == held);
        }
      });
  EXPECT_TRUE(holds);
}

// Senders and receivers with time limits and stop tokens against a close at a random moment, plain
// or with an error: what was accepted is what came out, each item once, in each sender's order.
TYPED_TEST(Channel, StressWithCloseStopAndErrorsLosesNothing) {
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

// A blocked thread sleeps: its CPU time does not grow with the wait.
TYPED_TEST(Channel, WaitingBurnsNoCore) {
  typename TestFixture::template Of<int> channel("idle", {.items = 1});
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  std::jthread receiver([&] {
    int got = 0;
    const auto before = used();
    EXPECT_EQ(channel.receive(got), Status::closed);
    EXPECT_LT(used() - before, 5ms) << "1 % of the time it waited";
  });
  std::this_thread::sleep_for(500ms);
  channel.close();
}

TYPED_TEST(Channel, LongestTimeoutIsNoOverflow) {
  typename TestFixture::template Of<int> channel("numbers", {.items = 1});
  std::jthread sender([&] { std::this_thread::sleep_for(5ms), channel.send(1); });
  int got = 0;
  EXPECT_EQ(channel.receive_for(std::chrono::nanoseconds::max(), got), Status::ok);
  EXPECT_EQ(channel.receive_for(std::chrono::nanoseconds::min(), got), Status::timed_out);
}

// An exception leaves another node in pop() for ever (oneTBB#406, #420); an error and a semaphore
// wake nobody (taskflow#730): whoever waits, on either side, learns of the error.
TYPED_TEST(Channel, ErrorReachesEverybodyWhoWaits) {
  typename TestFixture::template Of<int> full("full", {.items = 1}), empty("empty", {.items = 1});
  full.try_send(1);
  std::atomic<int> told = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < TypeParam::kThreads; ++i) {
    threads.emplace_back([&] {
      EXPECT_THROW(full.send(2), Error);
      ++told;
    });
    threads.emplace_back([&] {
      int got = 0;
      EXPECT_THROW(empty.receive(got), Error);
      ++told;
    });
  }
  std::this_thread::sleep_for(20ms);
  full.close(std::make_exception_ptr(Error(ErrorCode::io, "planted")));
  empty.close(std::make_exception_ptr(Error(ErrorCode::io, "planted")));
  threads.clear();
  EXPECT_EQ(told, 2 * TypeParam::kThreads);
}

// An item delivered and its reader cancelled at the same time (moonbitlang/async#448): the item is
// the reader's or still inside, never gone.
TYPED_TEST(Channel, CancelledReceiveLosesNothing) {
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
TYPED_TEST(Channel, BytesInFlightStayBelowTheBound) {
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

// A hang must be visible: a thread that waits in a channel says so.
TYPED_TEST(Channel, WaitIsVisibleFromOutside) {
  typename TestFixture::template Of<int> channel("features", {.items = 4});
  ThreadWait wait;
  std::stop_source stop;
  std::jthread receiver([&] {
    wait.install();
    int got = 0;
    channel.receive(got, stop.get_token());
  });
  std::optional<std::string> words;
  while (!(words = wait.snapshot().waits_to)) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(*words, "receive from features: 0/4 items");
  stop.request_stop();
  receiver.join();
  EXPECT_FALSE(wait.snapshot().waits_to);
}

}  // namespace
}  // namespace headrace
