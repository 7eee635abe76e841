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

#include "flow/channel_kinds.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;

// Every test holds for both kinds.
template <typename Kind>
class Channel : public testing_channels::ChannelTest<Kind> {};
TYPED_TEST_SUITE(Channel, testing_channels::Kinds);

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
