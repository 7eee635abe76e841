// Blocks sent to a device through staging slots, with the guard on or off: the same test for every
// implementation of a stream.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <semaphore>
#include <vector>

#include "headrace/device_event.h"

namespace headrace::testing {

inline void wait_for(const DeviceEvent& event) {
  const auto fired = std::make_shared<std::binary_semaphore>(0);
  event.on_fired([fired] { fired->release(); });
  fired->acquire();
}

enum class Guard {
  on,   // a slot is free when its copy's event has fired
  off,  // a slot is free when its copy is queued: the bug
};

// Fills block i with bytes of i + 1 and sends it to `device` + i * block. `before_copy` may queue
// something in front of a block's copy, `all_queued` may let the stream go on. Returns the blocks
// that arrived damaged.
inline std::vector<std::size_t> damaged_copies(DeviceStream& stream, StagingSlots& slots,
                                               Guard guard, std::byte* device, std::size_t blocks,
                                               const std::function<void(std::size_t)>& before_copy,
                                               const std::function<void()>& all_queued) {
  std::size_t block = 0;
  for (std::size_t i = 0; i < blocks; ++i) {
    StagingSlots::Slot slot;
    EXPECT_EQ(slots.acquire(slot), Status::ok);
    block = slot.bytes().size();
    std::memset(slot.bytes().data(), static_cast<int>(i + 1), block);
    before_copy(i);
    stream.copy(device + i * block, slot.bytes().data(), block);
    guard == Guard::on ? slot.release_after(stream.record()) : slot.release();
  }
  all_queued();
  std::vector<std::byte> arrived(blocks * block);
  stream.copy(arrived.data(), device, arrived.size());
  wait_for(stream.record());
  std::vector<std::size_t> damaged;
  for (std::size_t i = 0; i < blocks; ++i)
    if (std::vector<std::byte>(block, static_cast<std::byte>(i + 1)) !=
        std::vector<std::byte>(arrived.begin() + static_cast<std::ptrdiff_t>(i * block),
                               arrived.begin() + static_cast<std::ptrdiff_t>((i + 1) * block)))
      damaged.push_back(i);
  return damaged;
}

}  // namespace headrace::testing
