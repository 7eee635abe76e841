// DeviceStream over CUDA, and the memory that goes with it. Layer: gpu.
//
// Contract: that of headrace/device_event.h, and
//   - Where the runtime refuses, Error(resource) says what was asked and why. After a failure of
//     the device every later call does. After record() did, no queued copy uses memory any more.
//   - The destructor waits for the work queued. Events of a stream whose device has failed fire
//     there, since the device then touches no memory any more.
//   - Memory may be let go of in a subscriber of an event: what is freed in a driver's thread, which
//     must not call CUDA, is freed at the next allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gpu/library.h"
#include "gpu/loader.h"
#include "headrace/device_event.h"

namespace headrace {

class GpuStream final : public DeviceStream {
 public:
  // On the given device. Error(resource) says why there is none.
  explicit GpuStream(int device = 0, const std::string& library = gpu_library_path());
  ~GpuStream() override;
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  // Between any two of device, pinned and other host memory. Only pinned memory is copied while the
  // host goes on.
  void copy(void* to, const void* from, std::size_t bytes) override;
  DeviceEvent record() override;
  // Holds the stream until *open is not 0, a value in pinned memory, but for 10 s at most: for tests
  // and benchmarks.
  void hold(const std::uint32_t* open);

  std::shared_ptr<std::byte[]> pinned_memory(std::size_t bytes) const;
  std::shared_ptr<std::byte[]> device_memory(std::size_t bytes) const;

 private:
  struct Pending;

  void check(const char* answer, const char* call) const;

  const std::shared_ptr<const GpuLibrary> library_;
  const int device_;
  HeadraceGpuStream* stream_ = nullptr;
  std::shared_ptr<Pending> pending_;
};

}  // namespace headrace
