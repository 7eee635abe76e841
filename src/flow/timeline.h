// What each device does at every moment of a run, as spans without gaps or overlaps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "headrace/record.h"

namespace headrace {

// Not thread-safe: the caller locks. Times are the recorder's and never go back.
class Timeline {
 public:
  // One lane for each resource of a plan: its index in the trace's devices, or none. All of them
  // wait, for the host, from `start_ns`. Without a recorder nothing is kept.
  Timeline(Recorder* recorder, const std::vector<std::optional<std::uint32_t>>& devices,
           std::int64_t start_ns);

  // From now on the lane does `activity`, whose times and device do not matter. The same as before
  // prolongs the span.
  void set(std::size_t lane, Span activity, std::int64_t now_ns);
  // What the lane does now was not what it seemed: it counts as `activity` from its beginning.
  void amend(std::size_t lane, Span activity);
  // Ends all lanes. Waits before a lane's first work become `startup`, those after its last `tail`.
  void finish(std::int64_t now_ns);

 private:
  struct Lane {
    std::optional<std::uint32_t> device;
    Span current;
    std::vector<Span> waits;  // since the last work
    bool worked = false;
  };
  static void put(Lane& lane, Span activity, std::int64_t start_ns);
  void close(Lane& lane, std::int64_t now_ns);
  void flush_as_one(Lane& lane, const char* cause);

  Recorder* recorder_;
  std::vector<Lane> lanes_;
};

}  // namespace headrace
