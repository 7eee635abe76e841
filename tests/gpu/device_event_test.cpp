// Label gpu: without the CUDA half or a GPU these skip themselves.
#include "headrace/device_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "gpu/gpu_stream.h"
#include "headrace/error.h"
#include "staged_copies.h"

namespace headrace {
namespace {

using testing::damaged_copies;
using ::testing::ElementsAre;
using testing::Guard;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::wait_for;

constexpr std::size_t kBlock = 1 << 20;

class GpuEvent : public ::testing::Test {
 protected:
  void SetUp() override {
    const GpuList gpus = list_gpus();
    if (gpus.devices.empty()) GTEST_SKIP() << gpus.why_none;
  }
};

// Holds a stream until it is opened.
struct Gate {
  std::shared_ptr<std::byte[]> memory;
  explicit Gate(GpuStream& stream) : memory(stream.pinned_memory(sizeof(std::uint32_t))) {
    value().store(0);
    stream.hold(reinterpret_cast<const std::uint32_t*>(memory.get()));
  }
  void open() { value().store(1); }
  std::atomic_ref<std::uint32_t> value() {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory.get()));
  }
};

TEST(GpuStream, SaysWhyThereIsNone) {
  try {
    GpuStream(0, "/nowhere/libheadrace_gpu.so");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource);
    EXPECT_THAT(error.what(), HasSubstr("GPU 0: no CUDA half built: /nowhere/libheadrace_gpu.so"));
  }
}

// A kernel in front of the copy ends only when both blocks are queued: without the guard the second
// block is written over the first before the device has read that.
TEST_F(GpuEvent, WithoutTheGuardACopyIsDamaged) {
  GpuStream stream;
  StagingSlots slots("staging", stream.pinned_memory(kBlock), 1, kBlock);
  const auto device = stream.device_memory(2 * kBlock);
  Gate gate(stream);
  EXPECT_THAT(
      damaged_copies(
          stream, slots, Guard::off, device.get(), 2, [](std::size_t) {}, [&] { gate.open(); }),
      ElementsAre(0));
}

TEST_F(GpuEvent, WithTheGuardTheSlotIsNotToBeHadBeforeItsCopyIsDone) {
  GpuStream stream;
  StagingSlots slots("staging", stream.pinned_memory(kBlock), 1, kBlock);
  const auto device = stream.device_memory(kBlock);
  Gate gate(stream);
  StagingSlots::Slot slot;
  ASSERT_EQ(slots.acquire(slot), Status::ok);
  stream.copy(device.get(), slot.bytes().data(), kBlock);
  const DeviceEvent copied = stream.record();
  slot.release_after(copied);
  EXPECT_EQ(slots.acquire_for(std::chrono::milliseconds(20), slot), Status::timed_out);
  EXPECT_FALSE(copied.fired());
  gate.open();
  EXPECT_EQ(slots.acquire(slot), Status::ok);
  EXPECT_TRUE(copied.fired());
}

// Three slots: of every three copies the first two stand behind a kernel that ends when both are
// queued.
TEST_F(GpuEvent, WithTheGuardEveryCopyArrives) {
  GpuStream stream;
  StagingSlots slots("staging", stream.pinned_memory(3 * kBlock), 3, kBlock);
  constexpr std::size_t blocks = 201;
  const auto device = stream.device_memory(blocks * kBlock);
  std::vector<Gate> gates;
  EXPECT_THAT(damaged_copies(
                  stream, slots, Guard::on, device.get(), blocks,
                  [&](std::size_t i) {
                    if (i % 3 == 0) gates.emplace_back(stream);
                    if (i % 3 == 2) gates.back().open();
                  },
                  [] {}),
              IsEmpty());
  EXPECT_EQ(slots.available(), 3u);
}

TEST_F(GpuEvent, AHeldStreamHoldsUpNoOther) {
  GpuStream held, free;
  Gate gate(held);
  const DeviceEvent late = held.record();
  for (int i = 0; i < 100; ++i) wait_for(free.record());
  EXPECT_FALSE(late.fired());
  gate.open();
  wait_for(late);
}

// Credits and slots are gone when their event fires in the driver's thread, where CUDA must not be
// called to free pinned memory.
TEST_F(GpuEvent, SlotsMayBeDestroyedBeforeTheirEvents) {
  GpuStream stream;
  const auto device = stream.device_memory(kBlock);
  Gate gate(stream);
  DeviceEvent copied;
  std::weak_ptr<std::byte[]> watched;
  {
    std::shared_ptr<std::byte[]> memory = stream.pinned_memory(kBlock);
    watched = memory;
    StagingSlots slots("staging", std::move(memory), 1, kBlock);
    StagingSlots::Slot slot;
    ASSERT_EQ(slots.acquire(slot), Status::ok);
    stream.copy(device.get(), slot.bytes().data(), kBlock);
    copied = stream.record();
    slot.release_after(copied);
  }
  EXPECT_FALSE(watched.expired());
  gate.open();
  wait_for(copied);
  EXPECT_TRUE(watched.expired());
  EXPECT_NE(stream.pinned_memory(kBlock), nullptr) << "what was kept for later is freed here";
}

// A kernel that reads address 0 ends the device's context, so this runs in a process of its own.
TEST_F(GpuEvent, AFailedDeviceReturnsItsCredits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    Credits credits("device memory", 1);
    Credits::Credit credit;
    credits.acquire(credit);
    {
      GpuStream stream;
      Gate gate(stream);
      stream.hold(nullptr);
      credit.release_after(stream.record());
      gate.open();
    }
    std::exit(credits.available() == 1 ? 0 : 1);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace headrace
