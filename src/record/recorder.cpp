#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "headrace/error.h"
#include "headrace/record.h"

namespace headrace {

const char* to_string(SpanKind kind) {
  switch (kind) {
    case SpanKind::work:
      return "work";
    case SpanKind::wait:
      return "wait";
    case SpanKind::copy:
      return "copy";
    case SpanKind::sync:
      return "sync";
  }
  return "unknown";
}

// A ring: once `capacity` spans are there, the oldest gives way.
struct Recorder::State {
  const TraceHeader header;
  const std::size_t capacity;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::vector<Span> ring;
  std::uint64_t added = 0;
};

Recorder::Recorder(TraceHeader header, std::size_t capacity)
    : state_(new State{std::move(header), std::max<std::size_t>(capacity, 1)}) {}

Recorder::~Recorder() = default;

std::int64_t Recorder::now_ns() const {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - state_->start).count();
}

void Recorder::add(Span span) {
  if (span.device >= state_->header.devices.size())
    fail(ErrorCode::internal, "a span of stage {} is on device {}, but the trace lists {} devices",
         span.stage, span.device, state_->header.devices.size());
  const std::lock_guard lock(state_->mutex);
  if (state_->ring.size() < state_->capacity) {
    state_->ring.push_back(std::move(span));
  } else {
    state_->ring[state_->added % state_->capacity] = std::move(span);
  }
  ++state_->added;
}

std::vector<Span> Recorder::spans() const {
  std::vector<Span> spans;
  {
    const std::lock_guard lock(state_->mutex);
    spans = state_->ring;
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.start_ns, a.device) < std::pair(b.start_ns, b.device);
  });
  return spans;
}

std::uint64_t Recorder::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->added - state_->ring.size();
}

TraceHeader Recorder::header() const {
  TraceHeader header = state_->header;
  header.dropped += dropped();
  return header;
}

}  // namespace headrace
