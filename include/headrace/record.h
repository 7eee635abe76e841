// The trace recorder: spans of work and waits with their cause, in bounded memory, and a
// Chrome-JSON writer whose file opens in Perfetto and stays valid when cut off. Layer: record.
//
// Two ways in. Recorder::add() takes a Span with its names as strings, from any thread, under a
// lock. A Lane is for loops: one thread's own ring of fixed-size records, without an allocation
// or a lock of its own, through names that the recorder has numbered before:
//
//   Lane lane = recorder.lane(device);            // Lane() where nothing is recorded
//   const Name decode = recorder.name("decode");
//   { SpanScope span(lane, {.stage = decode, .step = step}); work(); }
//
// Such a span costs at most 50 ns where a reading of the counter costs 15, and under 1 ns when the
// lane is off (bench/record_bench.cpp).
//
// Times come from the CPU's cycle counter where its rate is invariant, kept in step with
// CLOCK_MONOTONIC, else from that clock itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

enum class SpanKind : std::uint8_t { work, wait, copy, sync };
const char* to_string(SpanKind kind);

// One interval on one device. Times: nanoseconds since the recorder's start.
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
  std::uint64_t dropped = 0;     // spans lost because memory is bounded
  bool operator==(const TraceHeader&) const = default;
};

// A string that one recorder has numbered: Recorder::name(). Another recorder's mean nothing to it.
enum class Name : std::uint32_t { none };  // none: ""

// What a span says besides its device and its times; see Span.
struct Label {
  SpanKind kind = SpanKind::work;
  Name stage = Name::none, cause = Name::none, channel = Name::none;
  std::uint64_t replica = 0, step = 0, sequence = 0;
};

// Where one thread at a time records the spans of one device. A handle: copy it freely, and use it
// while its recorder lives. A default-constructed one is off: everything on it does nothing.
class Lane {
 public:
  Lane() = default;
  explicit operator bool() const noexcept { return state_ != nullptr; }
  // The recorder's; 0 when off. Takes a lock once in 16 ms or less often, for 0.3 us, to compare the
  // cycle counter with CLOCK_MONOTONIC: a thread that comes meanwhile waits for the one that does.
  std::int64_t now_ns() const noexcept;
  // Never waits, allocates or fails: the oldest span of the lane gives way to the newest.
  void add(std::int64_t start_ns, std::int64_t end_ns, const Label& label) const noexcept;
  // The same, but it reads the clock as now_ns() does.
  void add_until_now(std::int64_t start_ns, const Label& label) const noexcept;

 private:
  friend class Recorder;
  friend class SpanStore;
  struct State;
  explicit Lane(State* state) : state_(state) {}
  State* state_ = nullptr;
};

// A span from here to the end of the scope.
class [[nodiscard]] SpanScope {
 public:
  SpanScope(Lane lane, const Label& label) noexcept : lane_(lane) {
    if (!lane_) return;
    label_ = label;
    start_ns_ = lane_.now_ns();
  }
  ~SpanScope() {
    if (lane_) lane_.add_until_now(start_ns_, label_);
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  Lane lane_;
  std::int64_t start_ns_ = 0;
  Label label_;
};

struct RecorderOptions {
  // Spans kept, 1 to 2^40: the newest so many of each lane, and of all that came through add().
  // A lane takes 56 bytes for each, which the system gives once it is used.
  std::size_t capacity = std::size_t{1} << 18;
  // The regular file in which the trace grows while the run goes on; "": none. It is valid at every
  // moment, and a process that is killed leaves in it what was recorded up to a second before. It
  // gets every span that a background thread finds in time, four times a second, not only those
  // that memory keeps.
  std::string path;
};

// Thread-safe, finish() apart. Keeps the newest spans and counts what it dropped.
class Recorder {
 public:
  // Error(bad_input) where there are more than 2^24 devices or the capacity is above 2^40; Error(io)
  // where `options.path` cannot be created. What was there is replaced.
  explicit Recorder(TraceHeader header, RecorderOptions options = {});
  ~Recorder();  // finish(), but an error goes unsaid
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  std::int64_t now_ns() const;       // since construction; never less than in an earlier reading
  void add(const Span& span);        // Error(internal) where the header has no such device
  Name name(std::string_view text);  // the same for the same text; texts are kept for good
  // A new lane, kept as long as the recorder. Error(internal) where the header has no such device.
  Lane lane(std::uint32_t device);

  std::vector<Span> spans() const;  // those kept, sorted by start
  std::uint64_t dropped() const;    // those not kept
  TraceHeader header() const;       // with `dropped` as it is now

  // Writes the rest to `options.path` and ends it; what is recorded later is not in it. A disk that
  // was full before and has room again has cost nothing but what did not fit into memory meanwhile,
  // which the file's header counts. Error(io) where spans are still unwritten. A second call, and
  // one without a path, does nothing. For one thread, while lanes and add() may go on.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Chrome JSON array, one event a line: pid = rank 0, tid = device, cat, args as in docs/files.md.
// Written under a temporary name, flushed and renamed. Error(io) where it cannot be written.
void write_trace(const std::string& path, const TraceHeader& header,
                 const std::vector<Span>& spans);

}  // namespace headrace
