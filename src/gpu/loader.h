// Finds and loads the CUDA half. Layer: gpu.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headrace {

struct GpuDevice {
  std::string name;
  std::uint64_t memory_bytes = 0;
  int capability_major = 0, capability_minor = 0;  // 9.0: Hopper
  int multiprocessors = 0;
};

struct GpuList {
  std::vector<GpuDevice> devices;
  std::string why_none;  // one line where `devices` is empty: no CUDA half, no driver, no GPU
};

// Loads libheadrace_gpu.so at the first call and asks it. Never throws for want of a GPU: a machine
// without one is an answer, not an error. Thread-safe. Looks in HEADRACE_GPU_LIBRARY (a file) where it is
// set, otherwise beside the program, in ../lib of the program's folder.
GpuList list_gpus();

}  // namespace headrace
