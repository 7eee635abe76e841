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

// The CUDA half's path: HEADRACE_GPU_LIBRARY where it is set, otherwise libheadrace_gpu.so in
// ../lib of the program's folder.
std::string gpu_library_path();

// Loads the CUDA half and asks it. A machine without a GPU is an answer, not an error: never throws
// for want of one. Thread-safe. The library stays loaded.
GpuList list_gpus(const std::string& library = gpu_library_path());

}  // namespace headrace
