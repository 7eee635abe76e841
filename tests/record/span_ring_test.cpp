#include "record/span_ring.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <thread>

namespace headrace {
namespace {

// Every field from `n`, so that a record of two halves is found out.
SpanRecord record_of(std::uint64_t n) {
  const auto small = static_cast<std::uint32_t>(n);
  return {.start_ns = static_cast<std::int64_t>(n),
          .end_ns = -static_cast<std::int64_t>(n),
          .device = small & 0xffffff,
          .label = {.kind = static_cast<SpanKind>(n % 4),
                    .stage = Name{small},
                    .cause = Name{small + 1},
                    .channel = Name{~small},
                    .replica = ~n,
                    .step = n + 2,
                    .sequence = n}};
}

bool is_whole(const SpanRecord& r, std::uint64_t n) {
  const SpanRecord e = record_of(n);
  return r.start_ns == e.start_ns && r.end_ns == e.end_ns && r.device == e.device &&
         r.label.kind == e.label.kind && r.label.stage == e.label.stage &&
         r.label.cause == e.label.cause && r.label.channel == e.label.channel &&
         r.label.replica == e.label.replica && r.label.step == e.label.step &&
         r.label.sequence == e.label.sequence;
}

RC_GTEST_PROP(SpanRing, ReadsTheNewestFromAnywhere, ()) {
  const auto capacity = *rc::gen::inRange<std::uint64_t>(1, 20);
  const auto added = *rc::gen::inRange<std::uint64_t>(0, 60);
  const auto from = *rc::gen::inRange<std::uint64_t>(0, 70);
  const auto limit = *rc::gen::inRange<std::uint64_t>(1, 30);
  const std::uint64_t offset = *rc::gen::arbitrary<std::uint64_t>();
  SpanRing ring(capacity);
  for (std::uint64_t n = 0; n < added; ++n) ring.push(record_of(n + offset));
  const std::uint64_t oldest = added > capacity ? added - capacity : 0;
  RC_ASSERT(ring.added() == added);
  RC_ASSERT(ring.dropped() == oldest);
  const SpanRing::Part part = ring.read(from, limit);
  RC_ASSERT(part.first == std::max(from, oldest));
  RC_ASSERT(part.records.size() == (part.first < added ? std::min(limit, added - part.first) : 0));
  for (std::uint64_t i = 0; i < part.records.size(); ++i)
    RC_ASSERT(is_whole(part.records[i], part.first + i + offset));
}

TEST(SpanRing, ReadersSeeWholeRecordsWhileTheWriterGoesOverThem) {
  for (const std::size_t capacity : {1, 3, 64}) {
    SpanRing ring(capacity);
    std::atomic<int> readers = 0;
    std::atomic<std::uint64_t> read = 0, torn = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 2; ++i)
        threads.emplace_back([&](const std::stop_token& stop) {
          ++readers;
          std::uint64_t next = 0;
          while (!stop.stop_requested()) {
            const SpanRing::Part part = ring.read(next, 16);
            if (part.first < next || part.records.size() > capacity) ++torn;
            for (std::uint64_t k = 0; k < part.records.size(); ++k)
              if (!is_whole(part.records[k], part.first + k)) ++torn;
            read += part.records.size();
            next = part.end();
          }
        });
      while (readers < 2) std::this_thread::yield();
      std::uint64_t n = 0;
      for (; n < 300'000 || read < 100; ++n) ring.push(record_of(n));
      EXPECT_EQ(ring.added(), n);
    }
    EXPECT_EQ(torn, 0u) << "capacity " << capacity;
  }
}

}  // namespace
}  // namespace headrace
