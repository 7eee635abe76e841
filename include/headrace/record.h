// The trace recorder: spans of work and waits with their cause, in bounded memory, and a
// Chrome-JSON writer whose file opens in Perfetto and stays valid when cut off. Layer: record.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace headrace {

enum class SpanKind : std::uint8_t { work, wait, copy, sync };
const char* to_string(SpanKind kind);

// One interval on one device. Times: nanoseconds of the steady clock since the recorder's start.
struct Span {
  std::int64_t start_ns = 0, end_ns = 0;
  SpanKind kind = SpanKind::work;
  std::uint32_t device = 0;  // index into TraceHeader::devices
  std::string stage;         // "" where none
  std::uint64_t replica = 0, step = 0, sequence = 0;
  std::string cause;    // of waits: starved back_pressured synchronising host startup tail
  std::string channel;  // of starved and back_pressured
  bool operator==(const Span&) const = default;
};

struct TraceHeader {
  std::string schema = "headrace-trace-1";
  std::string plan_hash, schedule;
  std::vector<std::string> devices;
  std::size_t host_threads = 0;  // the last so many of `devices` are background threads of the host
  std::uint64_t dropped = 0;     // spans lost at the start of the run, because memory is bounded
  bool operator==(const TraceHeader&) const = default;
};

// Collects spans from any thread; keeps the newest `capacity` >= 1 spans and counts what it
// dropped.
class Recorder {
 public:
  explicit Recorder(TraceHeader header, std::size_t capacity = 1u << 18);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  std::int64_t now_ns() const;  // since construction
  void add(Span span);          // thread-safe; Error(internal) where the header has no such device
  std::vector<Span> spans() const;  // sorted by start
  std::uint64_t dropped() const;
  TraceHeader header() const;  // with `dropped` as it is now

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Chrome JSON array, one event a line: pid = rank 0, tid = device, cat, args as in docs/files.md.
// Written under a temporary name, flushed and renamed. Error(io) where it cannot be written.
void write_trace(const std::string& path, const TraceHeader& header,
                 const std::vector<Span>& spans);

}  // namespace headrace
