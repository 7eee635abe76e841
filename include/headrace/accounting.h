// Where the time of every device went, from the spans of a trace: exact, in integer nanoseconds.
// Layer: trace.
//
//   host span   first start to last end over all spans of the trace, background threads included
//   busy        the union of a device's work, copy and sync spans
//   startup     host span's start to the device's first busy moment; the whole span where it has
//               none
//   tail        the device's last busy moment to the host span's end
//   the rest    by the cause of the wait that covers it; `host` where no wait does, or where a wait
//               gives startup or tail as its cause in the middle of the run
//
// The seven add up to the host span, whatever the order of the spans and however they are cut in
// pieces. Where waits overlap the cause named first below counts: starved, back_pressured,
// synchronising, host.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "headrace/record.h"

namespace headrace {

struct DeviceAccount {
  std::string name;
  std::int64_t busy_ns = 0, starved_ns = 0, back_pressured_ns = 0, synchronising_ns = 0,
               host_ns = 0, startup_ns = 0, tail_ns = 0;
  // Busy nanoseconds by step; they add up to busy_ns (where steps overlap the earliest counts).
  std::map<std::uint64_t, std::int64_t> busy_ns_by_step;

  // First to last busy moment, and what of it was not busy.
  std::int64_t span_ns() const { return busy_ns + idle_ns(); }
  std::int64_t idle_ns() const {
    return starved_ns + back_pressured_ns + synchronising_ns + host_ns;
  }
};

struct Accounting {
  std::int64_t start_ns = 0, end_ns = 0;  // the host span
  std::vector<DeviceAccount> devices;     // of the header, without its host threads
  std::map<std::uint64_t, std::int64_t>
      step_ends_ns;  // by step: the last busy moment of any device

  std::int64_t host_span_ns() const { return end_ns - start_ns; }
  // A time as a share of the host span; 0 where that is empty.
  double share(std::int64_t ns) const;
  // Median time between the ends of two steps in a row; 0 with fewer than two.
  std::int64_t median_step_ns() const;
};

// Error(bad_input) where a span ends before it starts or is on a device that the header has not.
Accounting account(const TraceHeader& header, const std::vector<Span>& spans);

}  // namespace headrace
