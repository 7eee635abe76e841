// Streams and their memory.
//
// How the host learns that work is done: an event is recorded in the stream, a second stream waits
// for it and then calls the host. No host thread waits, none polls, and the first stream does not
// wait for the call, which takes 80 us on an H200 (bench/results/device_event-2026-11-30.md).
#include "gpu/streams.h"

struct HeadraceGpuStream {
  int device = 0;
  cudaStream_t work = nullptr, calls = nullptr;
  cudaEvent_t done = nullptr;  // used again by each notify: waiting takes its state at that moment
};

namespace {

const char* text(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// Calls in turn up to the first that fails.
template <typename... Calls>
cudaError_t until_error(Calls... calls) {
  cudaError_t error = cudaSuccess;
  (void)(((error = calls()) == cudaSuccess) && ...);
  return error;
}

// All calls in turn; the first error.
template <typename... Calls>
cudaError_t despite_errors(Calls... calls) {
  cudaError_t first = cudaSuccess;
  const auto keep_first = [&](cudaError_t error) {
    if (first == cudaSuccess) first = error;
  };
  (keep_first(calls()), ...);
  return first;
}

// Makes a device the current one of this thread; in the end that is again what it was.
class OnDevice {
 public:
  explicit OnDevice(int device)
      : error_(until_error([this] { return cudaGetDevice(&before_); },
                           [=] { return cudaSetDevice(device); })),
        changed_(error_ == cudaSuccess && before_ != device) {}
  ~OnDevice() {
    if (changed_) (void)cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  const cudaError_t error_;
  const bool changed_;
};

// Calls in turn, on a device, up to the first that fails.
template <typename... Calls>
cudaError_t on_device(int device, Calls... calls) {
  const OnDevice current(device);
  return until_error([&] { return current.error(); }, calls...);
}

// What was not created is null, and is passed over.
cudaError_t release(HeadraceGpuStream* s) {
  const auto with = [](auto handle, auto call) {
    return handle == nullptr ? cudaSuccess : call(handle);
  };
  const OnDevice current(s->device);
  const cudaError_t error = despite_errors([&] { return current.error(); },
                                           [&] { return with(s->work, cudaStreamSynchronize); },
                                           [&] { return with(s->calls, cudaStreamSynchronize); },
                                           [&] { return with(s->done, cudaEventDestroy); },
                                           [&] { return with(s->calls, cudaStreamDestroy); },
                                           [&] { return with(s->work, cudaStreamDestroy); });
  delete s;
  return error;
}

__global__ void hold(const volatile uint32_t* open, uint64_t limit_ns) {
  uint64_t begin = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (*open == 0 && now - begin < limit_ns);
}

}  // namespace

extern "C" {

const char* headrace_gpu_stream_create(int device, HeadraceGpuStream** stream) {
  auto* made = new HeadraceGpuStream{device};
  const cudaError_t error = on_device(
      device, [&] { return cudaStreamCreateWithFlags(&made->work, cudaStreamNonBlocking); },
      [&] { return cudaStreamCreateWithFlags(&made->calls, cudaStreamNonBlocking); },
      [&] { return cudaEventCreateWithFlags(&made->done, cudaEventDisableTiming); });
  if (error != cudaSuccess) {
    release(made);
    return text(error);
  }
  *stream = made;
  return nullptr;
}

const char* headrace_gpu_stream_destroy(HeadraceGpuStream* stream) {
  return text(release(stream));
}

const char* headrace_gpu_stream_copy(HeadraceGpuStream* stream, void* to, const void* from,
                                     size_t bytes) {
  return text(on_device(stream->device, [=] {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->work);
  }));
}

const char* headrace_gpu_stream_notify(HeadraceGpuStream* stream, void (*fired)(void*),
                                       void* argument) {
  const cudaError_t error = on_device(
      stream->device, [=] { return cudaEventRecord(stream->done, stream->work); },
      [=] { return cudaStreamWaitEvent(stream->calls, stream->done, 0); },
      [=] { return cudaLaunchHostFunc(stream->calls, fired, argument); });
  if (error != cudaSuccess) (void)cudaStreamSynchronize(stream->work);
  return text(error);
}

const char* headrace_gpu_stream_hold(HeadraceGpuStream* stream, const uint32_t* open,
                                     uint64_t limit_ns) {
  return text(on_device(stream->device, [=] {
    hold<<<1, 1, 0, stream->work>>>(open, limit_ns);
    return cudaGetLastError();
  }));
}

const char* headrace_gpu_pinned_allocate(int device, size_t bytes, void** memory) {
  return text(
      on_device(device, [=] { return cudaHostAlloc(memory, bytes, cudaHostAllocPortable); }));
}

const char* headrace_gpu_pinned_free(void* memory) {
  return text(cudaFreeHost(memory));
}

const char* headrace_gpu_memory_allocate(int device, size_t bytes, void** memory) {
  return text(on_device(device, [=] { return cudaMalloc(memory, bytes); }));
}

const char* headrace_gpu_memory_free(void* memory) {
  return text(cudaFree(memory));
}

}  // extern "C"
