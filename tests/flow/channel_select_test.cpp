// receive_any: one receiver, several channels.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "headrace/channel.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using Ints = BoundedChannel<int>;

TEST(ReceiveAny, ServesAllChannelsInTurnAndEndsWithTheLast) {
  Ints a("a", {.items = 4}), b("b", {.items = 4}), c("c", {.items = 4});
  const std::array channels = {&a, &b, &c};
  for (int i = 0; i < 3; ++i) {
    a.try_send(10 + i);
    c.try_send(30 + i);
  }
  b.close();
  std::vector<int> got;
  std::size_t index = 2;
  for (int i = 0; i < 6; ++i) {
    int item = 0;
    ASSERT_EQ(Ints::receive_any(channels, item, index), Status::ok);
    got.push_back(item);
    EXPECT_EQ(index, item < 20 ? 0u : 2u);
  }
  EXPECT_EQ(got, (std::vector{10, 30, 11, 31, 12, 32})) << "neither channel is starved";
  a.close();
  c.close();
  int item = -1;
  EXPECT_EQ(Ints::receive_any(channels, item, index), Status::closed);
  EXPECT_EQ(item, -1);
  EXPECT_EQ(Ints::receive_any({}, item, index), Status::closed);
}

TEST(ReceiveAny, ErrorOfAChannelComesAfterItsItems) {
  Ints a("a", {.items = 2}), b("b", {.items = 2});
  const std::array channels = {&a, &b};
  a.try_send(1);
  a.close(std::make_exception_ptr(Error(ErrorCode::io, "disk gone")));
  int item = 0;
  std::size_t index = 1;
  EXPECT_EQ(Ints::receive_any(channels, item, index), Status::ok);
  EXPECT_EQ(item, 1);
  index = 1;
  EXPECT_THROW(Ints::receive_any(channels, item, index), Error);
  EXPECT_EQ(index, 0u) << "which one";
  b.try_send(2);
  EXPECT_EQ(Ints::receive_any(channels, item, index), Status::ok)
      << "who goes on reaches the others";
  EXPECT_EQ(item, 2);
}

TEST(ReceiveAny, SleepsUntilAnItemAStopOrTheLastClose) {
  SpscChannel<int> a("a", {.items = 1}), b("b", {.items = 1});
  const std::array channels = {&a, &b};
  int item = 0;
  std::size_t index = 0;
  {
    std::jthread sender([&] { std::this_thread::sleep_for(5ms), b.send(7); });
    EXPECT_EQ(SpscChannel<int>::receive_any(channels, item, index), Status::ok);
    EXPECT_EQ(item, 7);
    EXPECT_EQ(index, 1u);
  }
  {
    std::stop_source stop;
    std::jthread stopper([&] { std::this_thread::sleep_for(5ms), stop.request_stop(); });
    EXPECT_EQ(SpscChannel<int>::receive_any(channels, item, index, stop.get_token()),
              Status::stopped);
  }
  {
    std::jthread closer([&] {
      std::this_thread::sleep_for(5ms), a.close();
      std::this_thread::sleep_for(5ms), b.close();
    });
    EXPECT_EQ(SpscChannel<int>::receive_any(channels, item, index), Status::closed);
  }
}

// Receivers of one channel and of both: a wake-up that goes to one who serves the other channel must
// reach a receiver all the same. All items arrive, each once.
TEST(ReceiveAny, StressTogetherWithReceiversOfASingleChannel) {
  constexpr int kItems = 500;
  for (unsigned round = 0; round < 10; ++round) {
    Ints a("a", {.items = 1 + round % 3}), b("b", {.items = 2});
    std::array channels = {&a, &b};
    std::vector<std::atomic<int>> seen(2 * kItems);
    const auto take = [&](auto receive) {
      int item = 0;
      while (receive(item) == Status::ok) ++seen[static_cast<std::size_t>(item)];
    };
    {
      std::vector<std::jthread> receivers;
      for (int i = 0; i < 2; ++i)
        receivers.emplace_back([&] {
          std::size_t index = 0;
          take([&](int& item) { return Ints::receive_any(channels, item, index); });
        });
      receivers.emplace_back([&] { take([&](int& item) { return a.receive(item); }); });
      receivers.emplace_back([&] { take([&](int& item) { return b.receive(item); }); });
      std::jthread to_a([&] {
        for (int i = 0; i < kItems; ++i) a.send(int(i));
        a.close();
      });
      std::jthread to_b([&] {
        for (int i = 0; i < kItems; ++i) b.send(kItems + i);
        b.close();
      });
    }
    for (const std::atomic<int>& count : seen) ASSERT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace headrace
