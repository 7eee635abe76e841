// The C interface of the CUDA half, continued: streams, their memory, and news of what they have
// done. Layer: gpu.
//
// Every function returns null, or one line that says what the runtime refused (never freed). The
// current device of the calling thread is afterwards what it was.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

struct HeadraceGpuStream;

const char* headrace_gpu_stream_create(int device, struct HeadraceGpuStream** stream);
// Waits for the work queued and the calls of `fired` that belong to it.
const char* headrace_gpu_stream_destroy(struct HeadraceGpuStream* stream);

const char* headrace_gpu_stream_copy(struct HeadraceGpuStream* stream, void* to, const void* from,
                                     size_t bytes);
// Calls fired(argument) in a thread of the driver once the work queued so far is done; the work
// queued later does not wait for that. `fired` must not call CUDA. Where the device has failed it
// is never called. Where this is refused, the work queued so far is done, or the device has failed,
// when it returns: no event says so later.
const char* headrace_gpu_stream_notify(struct HeadraceGpuStream* stream, void (*fired)(void*),
                                       void* argument);
// Queues a kernel that ends when *open is not 0, or after `limit_ns`: something slow, for tests and
// benchmarks. `open` is pinned memory.
const char* headrace_gpu_stream_hold(struct HeadraceGpuStream* stream, const uint32_t* open,
                                     uint64_t limit_ns);

// For every device; in the context of this one.
const char* headrace_gpu_pinned_allocate(int device, size_t bytes, void** memory);
const char* headrace_gpu_pinned_free(void* memory);
const char* headrace_gpu_memory_allocate(int device, size_t bytes, void** memory);
const char* headrace_gpu_memory_free(void* memory);

}  // extern "C"
