// The CUDA half, opened: its functions as they are declared in devices.h and streams.h. Layer: gpu.
#pragma once

#include <string>

#include "gpu/devices.h"
#include "gpu/streams.h"

namespace headrace {

struct GpuLibrary {
  decltype(&headrace_gpu_devices) devices = nullptr;
  decltype(&headrace_gpu_stream_create) stream_create = nullptr;
  decltype(&headrace_gpu_stream_destroy) stream_destroy = nullptr;
  decltype(&headrace_gpu_stream_copy) stream_copy = nullptr;
  decltype(&headrace_gpu_stream_notify) stream_notify = nullptr;
  decltype(&headrace_gpu_stream_hold) stream_hold = nullptr;
  decltype(&headrace_gpu_pinned_allocate) pinned_allocate = nullptr;
  decltype(&headrace_gpu_pinned_free) pinned_free = nullptr;
  decltype(&headrace_gpu_memory_allocate) memory_allocate = nullptr;
  decltype(&headrace_gpu_memory_free) memory_free = nullptr;

  std::string why_not;  // one line where the library cannot be used; the functions are then null
};

// Never throws for want of a library. It stays loaded. Thread-safe.
GpuLibrary load_gpu_library(const std::string& path);

}  // namespace headrace
