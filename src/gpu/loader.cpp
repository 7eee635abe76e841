#include "gpu/loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "gpu/devices.h"

namespace headrace {
namespace {

struct Library {
  decltype(&headrace_gpu_devices) devices = nullptr;
  std::string why_not;
};

Library load(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at is not there
  if (!std::filesystem::exists(path, ignored)) {
    return {nullptr, fmt::format("no CUDA half built: {} is not there (build with nvcc on PATH and "
                                 "HEADRACE_CUDA=on)",
                                 path)};
  }
  // Never closed: the CUDA runtime inside registers handlers that must outlive every caller.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, fmt::format("cannot load the CUDA half: {}", dlerror())};
  void* symbol = dlsym(handle, "headrace_gpu_devices");
  if (symbol == nullptr) {
    return {nullptr, fmt::format("{} is not Headrace's CUDA half: {}", path, dlerror())};
  }
  return {reinterpret_cast<decltype(&headrace_gpu_devices)>(symbol), ""};
}

}  // namespace

std::string gpu_library_path() {
  if (const char* path = std::getenv("HEADRACE_GPU_LIBRARY")) return path;
  std::error_code
      ignored;  // an unreadable link leaves a relative path, which does not exist either
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (program.parent_path().parent_path() / "lib" / "libheadrace_gpu.so").string();
}

GpuList list_gpus(const std::string& path) {
  const Library library = load(path);
  GpuList list;
  if (library.devices == nullptr) {
    list.why_none = library.why_not;
    return list;
  }
  constexpr int capacity = 64;
  std::array<HeadraceGpuDevice, capacity> devices{};
  std::array<char, 256> message{};
  const int count = library.devices(devices.data(), capacity, message.data(), message.size());
  if (count < 0) list.why_none = fmt::format("no usable GPU driver: {}", message.data());
  if (count == 0) list.why_none = "the driver reports no GPU";
  for (int i = 0; i < count && i < capacity; ++i) {
    const HeadraceGpuDevice& d = devices[static_cast<std::size_t>(i)];
    list.devices.push_back(
        {d.name, d.memory_bytes, d.capability_major, d.capability_minor, d.multiprocessors});
  }
  return list;
}

}  // namespace headrace
