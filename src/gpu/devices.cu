// Lists the GPUs of this machine.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "gpu/devices.h"

namespace {

int refuse(cudaError_t error, char* message, size_t message_bytes) {
  std::snprintf(message, message_bytes, "%s", cudaGetErrorString(error));
  return -1;
}

}  // namespace

extern "C" int headrace_gpu_devices(HeadraceGpuDevice* devices, int capacity, char* message,
                                    size_t message_bytes) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) return 0;
  if (error != cudaSuccess) return refuse(error, message, message_bytes);
  for (int i = 0; i < count && i < capacity; ++i) {
    cudaDeviceProp properties;
    error = cudaGetDeviceProperties(&properties, i);
    if (error != cudaSuccess) return refuse(error, message, message_bytes);
    std::snprintf(devices[i].name, sizeof devices[i].name, "%s", properties.name);
    devices[i].memory_bytes = properties.totalGlobalMem;
    devices[i].capability_major = properties.major;
    devices[i].capability_minor = properties.minor;
    devices[i].multiprocessors = properties.multiProcessorCount;
  }
  return count;
}
