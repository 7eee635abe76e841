// The C interface of the CUDA half, libheadrace_gpu.so. Layer: gpu.
// Plain C types only: the loader and the CUDA compiler need not agree on a C++ library.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

struct HeadraceGpuDevice {
  char name[256];
  uint64_t memory_bytes;
  int32_t capability_major, capability_minor;
  int32_t multiprocessors;
};

// Writes at most `capacity` devices and returns how many there are. Returns -1 where the driver or
// the runtime refuses, with one line in `message` (at most `message_bytes`, always terminated).
int headrace_gpu_devices(struct HeadraceGpuDevice* devices, int capacity, char* message,
                         size_t message_bytes);

}  // extern "C"
