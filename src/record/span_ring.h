// The newest spans of one writer, in bounded memory, for any number of readers. Layer: record,
// private.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "headrace/record.h"

namespace headrace {

constexpr std::size_t kMostDevices = std::size_t{1} << 24;  // a device shares a word with the kind
constexpr std::size_t kMostSpans = std::size_t{1} << 40;    // of one ring; counts of words fit

// A Span without strings.
struct SpanRecord {
  std::int64_t start_ns, end_ns;
  std::uint32_t device;  // under kMostDevices
  Label label;
};

// push() is for one thread at a time and waits for nobody. What a reader copies while the writer
// goes over it is thrown away: a word of record n, released, can only be seen together with
// added_ >= n, and then record n - slots is known to be gone.
class SpanRing {
 public:
  // Keeps the newest `capacity` records, at most kMostSpans. Pages are only touched once records
  // reach them.
  explicit SpanRing(std::size_t capacity)
      : slots_(capacity + 1),  // one is being written
        words_(std::make_unique_for_overwrite<std::uint64_t[]>(slots_ * kWords)) {}

  void push(const SpanRecord& record) noexcept {
    const Words words = pack(record);
    std::uint64_t* const slot = &words_[next_ * kWords];
#pragma GCC unroll 7
    for (std::size_t i = 0; i < kWords; ++i)
      std::atomic_ref(slot[i]).store(words[i], std::memory_order_release);
    next_ = next_ + 1 == slots_ ? 0 : next_ + 1;
    added_.store(added_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  std::uint64_t added() const noexcept {
    return added_.load(std::memory_order_acquire);
  }
  std::uint64_t dropped() const noexcept {
    return oldest_of(added());
  }

  struct Part {
    std::uint64_t first = 0;  // how many were added before records[0], or would have been
    std::vector<SpanRecord> records;
    std::uint64_t end() const { return first + records.size(); }
  };
  // At most `limit` of the records from number `from` on; `first` is later where they are gone.
  Part read(std::uint64_t from,
            std::uint64_t limit = std::numeric_limits<std::uint64_t>::max()) const {
    const std::uint64_t end = added(), first = std::max(from, oldest_of(end));
    Part part{first, {}};
    if (first >= end) return part;
    part.records.resize(std::min(limit, end - first));
    for (std::uint64_t n = first; n < first + part.records.size(); ++n) {
      Words words;
      std::uint64_t* const slot = &words_[n % slots_ * kWords];
      for (std::size_t i = 0; i < kWords; ++i)
        words[i] = std::atomic_ref(slot[i]).load(std::memory_order_acquire);
      part.records[n - first] = unpack(words);
    }
    const std::uint64_t gone = std::max(dropped(), first) - first;
    const std::uint64_t erased = std::min<std::uint64_t>(gone, part.records.size());
    part.records.erase(part.records.begin(),
                       part.records.begin() + static_cast<std::ptrdiff_t>(erased));
    part.first += gone;
    return part;
  }

 private:
  static constexpr std::size_t kWords = 7;
  using Words = std::array<std::uint64_t, kWords>;

  static Words pack(const SpanRecord& record) noexcept {
    const auto word = [](auto high, auto low) {
      return std::uint64_t{static_cast<std::uint32_t>(high)} << 32 |
             static_cast<std::uint32_t>(low);
    };
    const Label& label = record.label;
    return {static_cast<std::uint64_t>(record.start_ns),
            static_cast<std::uint64_t>(record.end_ns),
            label.replica,
            label.step,
            label.sequence,
            word(label.stage, label.cause),
            word(label.channel, record.device << 8 | static_cast<std::uint32_t>(label.kind))};
  }
  static SpanRecord unpack(const Words& words) noexcept {
    const auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); };
    const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
    return {static_cast<std::int64_t>(words[0]),
            static_cast<std::int64_t>(words[1]),
            low(words[6]) >> 8,
            {.kind = static_cast<SpanKind>(low(words[6]) & 0xff),
             .stage = Name{high(words[5])},
             .cause = Name{low(words[5])},
             .channel = Name{high(words[6])},
             .replica = words[2],
             .step = words[3],
             .sequence = words[4]}};
  }

  std::uint64_t oldest_of(std::uint64_t added) const {
    return added > slots_ - 1 ? added - (slots_ - 1) : 0;
  }

  const std::size_t slots_;
  const std::unique_ptr<std::uint64_t[]> words_;
  std::size_t next_ = 0;  // slot; the writer's
  std::atomic<std::uint64_t> added_{0};
};

}  // namespace headrace
