// What a Recorder keeps in memory: the clock, the rings of its lanes and of add(), and the names
// that their records refer to. Layer: record, private.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "record/run_clock.h"
#include "record/span_ring.h"

namespace headrace {

struct Lane::State {
  State(const RunClock& its_clock, std::uint32_t its_device, std::size_t capacity)
      : clock(its_clock), device(its_device), ring(capacity) {}

  const RunClock& clock;
  const std::uint32_t device;
  SpanRing ring;
};

// Thread-safe.
class SpanStore {
 public:
  explicit SpanStore(std::size_t capacity);

  const RunClock& clock() const { return clock_; }
  Name name(std::string_view text);
  Lane::State& new_lane(std::uint32_t device);
  void add(const Span& span);

  // All rings there are, which stay where they are; later calls append to the same list.
  std::vector<const SpanRing*> rings() const;
  std::vector<Span> to_spans(const std::vector<SpanRecord>& records) const;

 private:
  Name number(std::string_view text);

  const RunClock clock_;
  const std::size_t capacity_;
  mutable std::mutex mutex_;  // of all below; it makes many threads one writer of shared_
  SpanRing shared_;
  std::deque<Lane::State> lanes_;
  std::deque<std::string> names_{""};  // in the order of their numbers
  std::unordered_map<std::string_view, Name> numbers_{{names_.front(), Name::none}};
};

}  // namespace headrace
