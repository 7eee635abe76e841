#include "headrace/channel.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

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

TEST(Channel, DeliversInOrderAndDrainsAfterClose) {
  BoundedChannel<int> channel("numbers", {.items = 3});
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

TEST(Channel, ErrorComesAfterTheGoodItemsAndToSendersAtOnce) {
  BoundedChannel<int> channel("numbers", {.items = 2});
  channel.try_send(7);
  channel.close(std::make_exception_ptr(Error(ErrorCode::io, "disk gone")));
  channel.close();
  EXPECT_THROW(channel.try_send(8), Error);
  int got = 0;
  EXPECT_EQ(channel.receive(got), Status::ok);
  EXPECT_EQ(got, 7);
  for (int again = 0; again < 2; ++again) EXPECT_THROW(channel.receive(got), Error);
}

TEST(Channel, ErrorAfterPlainCloseIsNotSwallowed) {
  BoundedChannel<int> channel("numbers", {.items = 2});
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

TEST(Channel, RefusesWhatCanNeverFit) {
  EXPECT_THROW(BoundedChannel<int>("none", {.items = 0}), Error);
  BoundedChannel<int> channel("features", {.items = 4, .bytes = 100});
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

TEST(Channel, ItemStaysWithTheCallerUnlessSent) {
  BoundedChannel<std::unique_ptr<int>> channel("pointers", {.items = 1});
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

TEST(Channel, WaitsEndByItemTimeStopAndClose) {
  BoundedChannel<int> channel("numbers", {.items = 1});
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

TEST(Channel, BatchReceiveTakesWhatIsThere) {
  BoundedChannel<int> channel("numbers", {.items = 5});
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
TEST(Channel, SendersOfDifferentSizesAreAllServed) {
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

TEST(Channel, FollowsAModelThatIsAQueueWithBounds) {
  const bool holds = rc::check(
      "try_ forms equal a deque with two bounds", [](const std::vector<std::uint8_t>& script) {
        const std::uint64_t items = *rc::gen::inRange<std::uint64_t>(1, 5);
        const std::uint64_t bytes = *rc::gen::inRange<std::uint64_t>(8, 20);
        BoundedChannel<int> channel("model", {.items = items, .bytes = bytes});
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
TEST(Channel, StressWithCloseStopAndErrorsLosesNothing) {
  constexpr int kThreads = 3;
  for (unsigned round = 0; round < 150; ++round) {
    std::mt19937 random(round);
    BoundedChannel<std::uint64_t> channel("stress",
                                          {.items = 1 + random() % 3, .bytes = 1 + random() % 9});
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

// A hang must be visible: a thread that waits in a channel says so.
TEST(Channel, WaitIsVisibleFromOutside) {
  BoundedChannel<int> channel("features", {.items = 4});
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
