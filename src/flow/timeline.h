// What each device does at every moment of a run, as spans without gaps or overlaps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/record.h"

namespace headrace {

// A Span without times and device. It borrows its words, so that to compare and to keep one costs
// no allocation: they outlive the timeline.
struct Activity {
  SpanKind kind = SpanKind::wait;
  std::string_view stage, cause, channel;
  std::uint64_t replica = 0, step = 0, sequence = 0;
  bool operator==(const Activity&) const = default;
};

// Not thread-safe: the caller locks. Times are the recorder's and never go back.
class Timeline {
 public:
  // One lane for each resource of a plan: its index in the trace's devices, or none. All of them
  // wait, for the host, from `start_ns`. Without a recorder nothing is kept.
  Timeline(Recorder* recorder, const std::vector<std::optional<std::uint32_t>>& devices,
           std::int64_t start_ns);

  // From now on the lane does `activity`. The same as before prolongs the span.
  void set(std::size_t lane, const Activity& activity, std::int64_t now_ns);
  // What the lane does now was not what it seemed: it counts as `activity` from its beginning.
  void amend(std::size_t lane, const Activity& activity);
  // Ends all lanes. Waits before a lane's first work become `startup`, those after its last `tail`.
  void finish(std::int64_t now_ns);

 private:
  struct Timed {
    Activity activity;
    std::int64_t start_ns = 0, end_ns = 0;
  };
  struct Lane {
    std::optional<std::uint32_t> device;
    Timed current;
    std::vector<Timed> waits;  // since the last work
    bool worked = false;
  };
  void close(Lane& lane, std::int64_t now_ns);
  void record(const Lane& lane, const Timed& timed);
  void flush_as_one(Lane& lane, std::string_view cause);

  Recorder* recorder_;
  std::vector<Lane> lanes_;
};

}  // namespace headrace
