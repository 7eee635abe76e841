#include "gpu/gpu_stream.h"

#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "headrace/error.h"

namespace headrace {
namespace {

thread_local bool in_driver_thread = false;

// What was let go of where CUDA must not be called.
class FreeLater {
 public:
  void free(std::function<void()> call) {
    if (!in_driver_thread) return call();
    const std::lock_guard lock(mutex_);
    later_.push_back(std::move(call));
  }
  void free_now() {
    std::vector<std::function<void()>> due;
    {
      const std::lock_guard lock(mutex_);
      due.swap(later_);
    }
    for (const auto& call : due) call();
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> later_;
};

FreeLater& free_later() {
  static auto* const instance = new FreeLater;  // outlives the driver's threads
  return *instance;
}

}  // namespace

// Events that have not fired.
struct GpuStream::Pending {
  std::mutex mutex;
  std::map<std::uint64_t, DeviceEvent> events;
  std::uint64_t next = 0;

  // What the driver is given, and gives back.
  struct Call {
    std::shared_ptr<Pending> pending;
    std::uint64_t number;
  };

  std::uint64_t add(const DeviceEvent& event) {
    const std::lock_guard lock(mutex);
    events.emplace(next, event);
    return next++;
  }
  void forget(std::uint64_t number) {
    const std::lock_guard lock(mutex);
    events.erase(number);
  }
  void fire(std::uint64_t number) {
    std::unique_lock lock(mutex);
    const auto node = events.extract(number);
    lock.unlock();
    if (node) node.mapped().fire();
  }
  void fire_all() {
    std::unique_lock lock(mutex);
    const auto all = std::exchange(events, {});
    lock.unlock();
    for (const auto& [number, event] : all) event.fire();
  }

  static void fired(void* argument) {
    in_driver_thread = true;
    const std::unique_ptr<Call> call(static_cast<Call*>(argument));
    call->pending->fire(call->number);
  }
};

GpuStream::GpuStream(int device, const std::string& library)
    : library_(std::make_shared<const GpuLibrary>(load_gpu_library(library))),
      device_(device),
      pending_(std::make_shared<Pending>()) {
  if (!library_->why_not.empty())
    fail(ErrorCode::resource, "GPU {}: {}", device, library_->why_not);
  check(library_->stream_create(device, &stream_), "a stream");
}

GpuStream::~GpuStream() {
  library_->stream_destroy(stream_);  // waits; a failure was or will be told by another call
  pending_->fire_all();
}

void GpuStream::copy(void* to, const void* from, std::size_t bytes) {
  check(library_->stream_copy(stream_, to, from, bytes), "a copy");
}

DeviceEvent GpuStream::record() {
  const DeviceEvent event;
  auto call = std::make_unique<Pending::Call>(Pending::Call{pending_, pending_->add(event)});
  const char* answer = library_->stream_notify(stream_, Pending::fired, call.get());
  if (answer != nullptr) pending_->forget(call->number);
  check(answer, "an event");
  call.release();
  return event;
}

void GpuStream::hold(const std::uint32_t* open) {
  check(library_->stream_hold(stream_, open, 10'000'000'000), "a kernel");
}

std::shared_ptr<std::byte[]> GpuStream::pinned_memory(std::size_t bytes) const {
  free_later().free_now();
  void* memory = nullptr;
  check(library_->pinned_allocate(device_, bytes, &memory), "pinned memory");
  return {static_cast<std::byte*>(memory), [free = library_->pinned_free](std::byte* block) {
            free_later().free([=] { free(block); });
          }};
}

std::shared_ptr<std::byte[]> GpuStream::device_memory(std::size_t bytes) const {
  free_later().free_now();
  void* memory = nullptr;
  check(library_->memory_allocate(device_, bytes, &memory), "device memory");
  return {static_cast<std::byte*>(memory), [free = library_->memory_free](std::byte* block) {
            free_later().free([=] { free(block); });
          }};
}

void GpuStream::check(const char* answer, const char* call) const {
  if (answer != nullptr) fail(ErrorCode::resource, "GPU {}: {}: {}", device_, call, answer);
}

}  // namespace headrace
