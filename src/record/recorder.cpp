#include <algorithm>
#include <memory>
#include <utility>

#include "headrace/error.h"
#include "headrace/record.h"
#include "record/span_store.h"
#include "record/trace_stream.h"

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

std::int64_t Lane::now_ns() const noexcept {
  return state_ != nullptr ? state_->clock.now_ns() : 0;
}

void Lane::add(std::int64_t start_ns, std::int64_t end_ns, const Label& label) const noexcept {
  if (state_ != nullptr) state_->ring.push({start_ns, end_ns, state_->device, label});
}

void Lane::add_until_now(std::int64_t start_ns, const Label& label) const noexcept {
  if (state_ == nullptr) return;
  state_->ring.push({start_ns, state_->clock.now_ns(), state_->device, label});
}

struct Recorder::State {
  const TraceHeader header;
  SpanStore store;
  std::unique_ptr<TraceStream> stream;

  void check(std::uint32_t device, std::string_view what, std::string_view name) const {
    if (device >= header.devices.size())
      fail(ErrorCode::internal, "{}{} is on device {}, but the trace lists {} devices", what, name,
           device, header.devices.size());
  }
};

Recorder::Recorder(TraceHeader header, RecorderOptions options) {
  if (header.devices.size() > kMostDevices)
    fail(ErrorCode::bad_input, "recorder: {} devices; a trace has at most {}",
         header.devices.size(), kMostDevices);
  if (options.capacity > kMostSpans)
    fail(ErrorCode::bad_input, "recorder: a capacity of {} spans; give at most {}",
         options.capacity, kMostSpans);
  state_.reset(new State{std::move(header), SpanStore(options.capacity)});
  if (!options.path.empty())
    state_->stream = std::make_unique<TraceStream>(options.path, state_->header, state_->store);
}

Recorder::~Recorder() {
  try {
    finish();
  } catch (const std::exception&) {
  }
}

std::int64_t Recorder::now_ns() const {
  return state_->store.clock().now_ns();
}

void Recorder::add(const Span& span) {
  state_->check(span.device, "a span of stage ", span.stage);
  state_->store.add(span);
}

Name Recorder::name(std::string_view text) {
  return state_->store.name(text);
}

Lane Recorder::lane(std::uint32_t device) {
  state_->check(device, "a lane", "");
  return Lane(&state_->store.new_lane(device));
}

std::vector<Span> Recorder::spans() const {
  std::vector<SpanRecord> records;
  for (const SpanRing* ring : state_->store.rings()) {
    const std::vector<SpanRecord> some = ring->read(0).records;
    records.insert(records.end(), some.begin(), some.end());
  }
  std::stable_sort(records.begin(), records.end(), [](const SpanRecord& a, const SpanRecord& b) {
    return std::pair(a.start_ns, a.device) < std::pair(b.start_ns, b.device);
  });
  return state_->store.to_spans(records);
}

std::uint64_t Recorder::dropped() const {
  std::uint64_t dropped = 0;
  for (const SpanRing* ring : state_->store.rings()) dropped += ring->dropped();
  return dropped;
}

TraceHeader Recorder::header() const {
  TraceHeader header = state_->header;
  header.dropped += dropped();
  return header;
}

void Recorder::finish() {
  // Taken away first, so that what is missing is told once.
  if (const std::unique_ptr<TraceStream> stream = std::move(state_->stream)) stream->finish();
}

}  // namespace headrace
