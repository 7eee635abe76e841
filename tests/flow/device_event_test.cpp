#include "headrace/device_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <atomic>
#include <new>
#include <thread>

#include "headrace/error.h"
#include "headrace/thread.h"
#include "shortage.h"
#include "staged_copies.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using testing::damaged_copies;
using ::testing::ElementsAre;
using testing::Guard;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::wait_for;

std::shared_ptr<std::byte[]> memory(std::size_t bytes) {
  return std::make_shared<std::byte[]>(bytes);
}

// Holds a stream until it is opened.
struct Gate {
  std::shared_ptr<std::binary_semaphore> semaphore = std::make_shared<std::binary_semaphore>(0);
  explicit Gate(CpuStream& stream) {
    stream.run([s = semaphore] { s->acquire(); });
  }
  void open() { semaphore->release(); }
};

// Waits until a thread has blocked in a call of the library; what for.
std::string waits_for(const ThreadWait& thread) {
  while (true) {
    const auto snapshot = thread.snapshot();
    if (snapshot.changes > 0) return snapshot.waits_to.value_or("nothing any more");
    std::this_thread::yield();
  }
}

TEST(DeviceEvent, CallsEachSubscriberOnceBeforeOrAfterItFires) {
  const DeviceEvent event;
  std::vector<int> calls;
  event.on_fired([&] { calls.push_back(1); });
  event.on_fired([&] { calls.push_back(2); });
  EXPECT_FALSE(event.fired());
  EXPECT_THAT(calls, IsEmpty());
  const DeviceEvent copy = event;
  copy.fire();
  copy.fire();
  EXPECT_TRUE(event.fired());
  event.on_fired([&] { calls.push_back(3); });
  EXPECT_THAT(calls, ElementsAre(1, 2, 3));
  DeviceEvent().on_fired([&] { calls.push_back(4); });
  EXPECT_THAT(calls, ElementsAre(1, 2, 3, 4)) << "an event that its device let go of";
}

TEST(DeviceEvent, CallsEachSubscriberOnceWhileItFires) {
  for (int round = 0; round < 2000; ++round) {
    const DeviceEvent event;
    std::atomic<int> calls = 0;
    std::jthread device([event] { event.fire(); });
    for (int i = 0; i < 3; ++i) event.on_fired([&] { ++calls; });
    device.join();
    ASSERT_EQ(calls, 3);
  }
}

TEST(Credits, ReturnWhenTheEventFiresAndNotBefore) {
  Credits credits("device memory", 10);
  Credits::Credit credit, other;
  ASSERT_EQ(credits.try_acquire(credit, 7), Status::ok);
  EXPECT_EQ(credit.amount(), 7u);
  const DeviceEvent event;
  credit.release_after(event);
  EXPECT_EQ(credit.amount(), 0u);
  EXPECT_EQ(credits.available(), 3u);
  EXPECT_EQ(credits.describe(), "device memory: 7 of 10 credits in use");
  EXPECT_EQ(credits.try_acquire(other, 4), Status::would_block);
  EXPECT_EQ(credits.acquire_for(1ms, other, 4), Status::timed_out);
  EXPECT_EQ(other.amount(), 0u);
  event.fire();
  EXPECT_EQ(credits.available(), 10u);
  EXPECT_EQ(credits.try_acquire(other, 4), Status::ok);
  other.release();
  other.release();
  EXPECT_EQ(credits.available(), 10u);
}

TEST(Credits, RefuseWhatTheyCanNeverGive) {
  EXPECT_THROW(Credits("none", 0), Error);
  Credits credits("device memory", 10);
  Credits::Credit credit;
  EXPECT_THROW(credits.try_acquire(credit, 0), Error);
  try {
    credits.acquire(credit, 11);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "credits device memory: 11 asked for, but one can hold 1 to 10");
  }
}

TEST(Credits, LongestTimeoutIsNoOverflow) {
  Credits credits("device memory", 1);
  Credits::Credit credit, other;
  ASSERT_EQ(credits.try_acquire(credit), Status::ok);
  std::jthread device([&] { std::this_thread::sleep_for(5ms), credit.release(); });
  EXPECT_EQ(credits.acquire_for(std::chrono::nanoseconds::max(), other), Status::ok);
  EXPECT_EQ(credits.acquire_for(std::chrono::nanoseconds::min(), credit), Status::timed_out);
}

TEST(Credits, AWaitSaysWhatItWaitsForAndCanBeStopped) {
  Credits credits("device memory", 10);
  Credits::Credit all;
  ASSERT_EQ(credits.try_acquire(all, 10), Status::ok);
  ThreadWait wait;
  Status status = Status::ok;
  std::jthread host([&](std::stop_token stop) {
    wait.install();
    Credits::Credit credit;
    status = credits.acquire(credit, 4, stop);
  });
  EXPECT_EQ(waits_for(wait), "acquire 4 from device memory: 10 of 10 credits in use");
  host.request_stop();
  host.join();
  EXPECT_EQ(status, Status::stopped);
  all.release();
  EXPECT_EQ(credits.available(), 10u);
}

// 8 of 10 are asked for first: the 1 asked for later does not take what comes back meanwhile.
TEST(Credits, ALargeAmountIsNotPassedOver) {
  Credits credits("device memory", 10);
  Credits::Credit first, second;
  ASSERT_EQ(credits.try_acquire(first, 5), Status::ok);
  ASSERT_EQ(credits.try_acquire(second, 5), Status::ok);
  ThreadWait wait;
  std::binary_semaphore has_large{0}, may_end{0};
  std::jthread large([&] {
    wait.install();
    Credits::Credit credit;
    ASSERT_EQ(credits.acquire(credit, 8), Status::ok);
    has_large.release();
    may_end.acquire();
  });
  waits_for(wait);
  first.release();
  Credits::Credit small;
  EXPECT_EQ(credits.try_acquire(small, 1), Status::would_block) << "the large amount waits";
  second.release();
  has_large.acquire();
  EXPECT_EQ(credits.try_acquire(small, 2), Status::ok);
  may_end.release();
}

// A waiter that gives up lets the next one look again.
TEST(Credits, AWaiterThatLeavesMakesRoomForTheNext) {
  Credits credits("device memory", 10);
  Credits::Credit half;
  ASSERT_EQ(credits.try_acquire(half, 5), Status::ok);
  ThreadWait large_wait;
  std::jthread large([&] {
    large_wait.install();
    Credits::Credit credit;
    EXPECT_EQ(credits.acquire_for(200ms, credit, 8), Status::timed_out);
  });
  waits_for(large_wait);
  std::jthread small([&] {
    Credits::Credit credit;
    EXPECT_EQ(credits.acquire(credit, 3), Status::ok);
  });
  small.join();
  EXPECT_EQ(credits.available(), 5u);
}

TEST(Credits, AnEventThatIsGivenUpReturnsThem) {
  Credits credits("device memory", 3);
  {
    Credits::Credit credit;
    ASSERT_EQ(credits.try_acquire(credit, 2), Status::ok);
    const DeviceEvent event;
    credit.release_after(event);
    EXPECT_EQ(credits.available(), 1u);
  }
  EXPECT_EQ(credits.available(), 3u);
}

TEST(Credits, MayBeDestroyedBeforeTheirEvents) {
  const DeviceEvent event;
  const std::weak_ptr<std::byte[]> watched = [&] {
    const std::shared_ptr<std::byte[]> block = memory(64);
    StagingSlots slots("staging", block, 2, 32);
    Credits credits("device memory", 8);
    StagingSlots::Slot slot;
    Credits::Credit credit;
    EXPECT_EQ(slots.try_acquire(slot), Status::ok);
    EXPECT_EQ(credits.try_acquire(credit, 8), Status::ok);
    slot.release_after(event);
    credit.release_after(event);
    return std::weak_ptr<std::byte[]>(block);
  }();
  EXPECT_FALSE(watched.expired()) << "the device may still read it";
  event.fire();
  EXPECT_TRUE(watched.expired());
}

// Any mix of amounts from several threads: never more out than there are, and all return.
TEST(Credits, NeverMoreThanThereAre) {
  const bool holds = rc::check("sum of what is out <= total", [] {
    const auto total = *rc::gen::inRange<std::uint64_t>(1, 20);
    const auto threads = *rc::gen::inRange(1, 5);
    const auto amounts = *rc::gen::container<std::vector<std::uint64_t>>(
        20, rc::gen::inRange<std::uint64_t>(1, total + 1));
    Credits credits("device memory", total);
    std::atomic<std::uint64_t> out = 0, most = 0;
    {
      std::vector<CpuStream> streams(static_cast<std::size_t>(threads));
      std::vector<std::jthread> hosts;
      for (CpuStream& stream : streams)
        hosts.emplace_back([&] {
          for (const std::uint64_t amount : amounts) {
            Credits::Credit credit;
            if (credits.acquire(credit, amount) != Status::ok) return;  // never: nothing stops it
            const std::uint64_t now = out += amount;
            std::uint64_t seen = most;
            while (now > seen && !most.compare_exchange_weak(seen, now)) {
            }
            stream.run([&out, amount] { out -= amount; });
            credit.release_after(stream.record());
          }
        });
    }
    RC_ASSERT(most.load() <= total);
    RC_ASSERT(credits.available() == total);
  });
  EXPECT_TRUE(holds);
}

// One slot, a device that copies only when everything is queued: without the guard the second block
// is written over the first before that was read.
TEST(StagingSlots, WithoutTheGuardACopyIsDamaged) {
  const auto device = memory(2 * 64);
  CpuStream stream;
  StagingSlots slots("staging", memory(64), 1, 64);
  Gate gate(stream);
  EXPECT_THAT(
      damaged_copies(
          stream, slots, Guard::off, device.get(), 2, [](std::size_t) {}, [&] { gate.open(); }),
      ElementsAre(0));
}

TEST(StagingSlots, WithTheGuardTheSlotIsNotToBeHadBeforeItsCopyIsDone) {
  const auto device = memory(64);
  CpuStream stream;
  StagingSlots slots("staging", memory(64), 1, 64);
  Gate gate(stream);
  StagingSlots::Slot slot;
  ASSERT_EQ(slots.acquire(slot), Status::ok);
  stream.copy(device.get(), slot.bytes().data(), slot.bytes().size());
  const DeviceEvent copied = stream.record();
  slot.release_after(copied);
  EXPECT_TRUE(slot.bytes().empty());
  EXPECT_EQ(slots.try_acquire(slot), Status::would_block);
  EXPECT_EQ(slots.acquire_for(1ms, slot), Status::timed_out);
  gate.open();
  EXPECT_EQ(slots.acquire(slot), Status::ok);
  EXPECT_TRUE(copied.fired());
}

// Slots come back in the order in which copies end, not in which they were taken: two streams, the
// first held.
TEST(StagingSlots, ASlowStreamHoldsItsOwnSlotsAlone) {
  const auto device = memory(64 * 8);
  CpuStream slow, fast;
  StagingSlots slots("staging", memory(2 * 8), 2, 8);
  Gate gate(slow);
  StagingSlots::Slot slot;
  ASSERT_EQ(slots.acquire(slot), Status::ok);
  slow.copy(device.get(), slot.bytes().data(), 8);
  slot.release_after(slow.record());
  EXPECT_THAT(damaged_copies(
                  fast, slots, Guard::on, device.get() + 8, 50, [](std::size_t) {}, [] {}),
              IsEmpty());
  EXPECT_EQ(slots.available(), 1u);
  gate.open();
}

// Nothing can fail between a queued copy and its guard.
TEST(StagingSlots, NeedNoMemoryToComeBackAndTakeNothingWithoutIt) {
  Credits credits("device memory", 8);
  StagingSlots slots("staging", memory(8), 1, 8);
  Credits::Credit credit;
  StagingSlots::Slot slot;
  for (long allocations = 0; slot.bytes().empty(); ++allocations) {
    testing::allocations_left = allocations;
    try {
      if (credit.amount() == 0) credits.try_acquire(credit, 8);
      slots.try_acquire(slot);
    } catch (const std::bad_alloc&) {
      testing::allocations_left = -1;
      EXPECT_EQ(slots.available(), 1u);
      EXPECT_EQ(credits.available(), 8 - credit.amount());
    }
  }
  testing::allocations_left = -1;
  const DeviceEvent event;
  testing::allocations_left = 0;
  slot.release_after(event);
  credit.release_after(event);
  testing::allocations_left = -1;
  EXPECT_EQ(slots.available(), 0u);
  EXPECT_EQ(credits.available(), 0u);
  event.fire();
  EXPECT_EQ(slots.available(), 1u);
  EXPECT_EQ(credits.available(), 8u);
}

// An event that fires while a slot is handed to it: the slot comes back before its credit says so.
TEST(StagingSlots, ComeBackWholeWhileTheirEventFires) {
  StagingSlots slots("staging", memory(8), 1, 8);
  for (int round = 0; round < 2000; ++round) {
    StagingSlots::Slot slot;
    ASSERT_EQ(slots.acquire(slot), Status::ok);
    const DeviceEvent event;
    std::jthread device([event] { event.fire(); });
    slot.release_after(event);
    StagingSlots::Slot next;
    ASSERT_EQ(slots.acquire(next), Status::ok);
    ASSERT_EQ(next.bytes().size(), 8u);
  }
}

TEST(StagingSlots, WithTheGuardEveryCopyArrives) {
  const bool holds = rc::check("every block arrives", [] {
    const auto count = *rc::gen::inRange<std::size_t>(1, 5);
    const auto blocks = *rc::gen::inRange<std::size_t>(1, 60);
    const auto slow = *rc::gen::container<std::vector<bool>>(blocks, rc::gen::arbitrary<bool>());
    const auto device = memory(blocks * 128);
    CpuStream stream;
    StagingSlots slots("staging", memory(count * 128), count, 128);
    const auto damaged = damaged_copies(
        stream, slots, Guard::on, device.get(), blocks,
        [&](std::size_t i) {
          if (slow[i]) stream.run([] { std::this_thread::sleep_for(50us); });
        },
        [] {});
    RC_ASSERT(damaged.empty());
    RC_ASSERT(slots.available() == count);
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace headrace
