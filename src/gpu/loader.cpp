#include "gpu/loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <type_traits>

#include "gpu/library.h"

namespace headrace {

GpuLibrary load_gpu_library(const std::string& path) {
  GpuLibrary library;
  std::error_code ignored;  // what cannot be looked at is not there
  if (!std::filesystem::exists(path, ignored)) {
    library.why_not = fmt::format(
        "no CUDA half built: {} is not there (build with nvcc on PATH and HEADRACE_CUDA=on)", path);
    return library;
  }
  // Never closed: the CUDA runtime inside registers handlers that must outlive every caller.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    library.why_not = fmt::format("cannot load the CUDA half: {}", dlerror());
    return library;
  }
  const auto find = [&](auto& function, const char* name) {
    void* symbol = library.why_not.empty() ? dlsym(handle, name) : nullptr;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
    if (symbol == nullptr && library.why_not.empty())
      library.why_not = fmt::format("{} is not Headrace's CUDA half: {}", path, dlerror());
  };
  find(library.devices, "headrace_gpu_devices");
  find(library.stream_create, "headrace_gpu_stream_create");
  find(library.stream_destroy, "headrace_gpu_stream_destroy");
  find(library.stream_copy, "headrace_gpu_stream_copy");
  find(library.stream_notify, "headrace_gpu_stream_notify");
  find(library.stream_hold, "headrace_gpu_stream_hold");
  find(library.pinned_allocate, "headrace_gpu_pinned_allocate");
  find(library.pinned_free, "headrace_gpu_pinned_free");
  find(library.memory_allocate, "headrace_gpu_memory_allocate");
  find(library.memory_free, "headrace_gpu_memory_free");
  return library;
}

std::string gpu_library_path() {
  if (const char* path = std::getenv("HEADRACE_GPU_LIBRARY")) return path;
  // An unreadable link leaves a relative path, which does not exist either.
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (program.parent_path().parent_path() / "lib" / "libheadrace_gpu.so").string();
}

GpuList list_gpus(const std::string& path) {
  const GpuLibrary library = load_gpu_library(path);
  GpuList list;
  if (!library.why_not.empty()) {
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
