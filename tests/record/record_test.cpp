#include "headrace/record.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "headrace/error.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

TEST(Record, KeepsTheNewestAndCountsTheRest) {
  Recorder recorder({.devices = {"gpu0"}}, {.capacity = 4});
  for (int i = 9; i >= 0; --i) recorder.add({.start_ns = i, .end_ns = i + 1});
  EXPECT_EQ(recorder.dropped(), 6u);
  EXPECT_EQ(recorder.header().dropped, 6u);
  const std::vector<Span> spans = recorder.spans();
  ASSERT_EQ(spans.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(spans[i].start_ns, i) << "sorted by start";
  EXPECT_THROW(recorder.add({.device = 1}), Error);
}

// A ring of more would not have the size that it was asked for: its bytes are no longer countable.
TEST(Record, RefusesACapacityThatNoMemoryHas) {
  for (const std::size_t capacity : {(std::size_t{1} << 40) + 1, ~std::size_t{0}}) {
    try {
      Recorder({.devices = {"gpu0"}}, {.capacity = capacity});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      EXPECT_EQ(error.what(), fmt::format("recorder: a capacity of {} spans; give at most {}",
                                          capacity, std::size_t{1} << 40));
    }
  }
}

RC_GTEST_PROP(Record, GivesBackTheSpansItWasGiven, ()) {
  const auto text = rc::gen::container<std::string>(rc::gen::inRange('a', 'd'));
  const auto count = rc::gen::arbitrary<std::uint64_t>();
  const auto time = rc::gen::inRange<std::int64_t>(-1000, 1000);
  std::vector<Span> spans;
  Recorder recorder({.devices = {"a", "b", "c"}});
  for (int i = *rc::gen::inRange(0, 20); i > 0; --i) {
    spans.push_back(
        {.start_ns = *time,
         .end_ns = *time,
         .kind = *rc::gen::element(SpanKind::work, SpanKind::wait, SpanKind::copy, SpanKind::sync),
         .device = *rc::gen::inRange(0u, 3u),
         .stage = *text,
         .replica = *count,
         .step = *count,
         .sequence = *count,
         .cause = *text,
         .channel = *text});
    recorder.add(spans.back());
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.start_ns, a.device) < std::pair(b.start_ns, b.device);
  });
  RC_ASSERT(recorder.spans() == spans);
}

TEST(Record, AScopeIsASpanOfItsLane) {
  Recorder recorder({.devices = {"a", "b"}});
  const Lane lane = recorder.lane(1);
  const Label outer{.stage = recorder.name("outer"), .replica = 1, .step = 2, .sequence = 3};
  const Label inner{.kind = SpanKind::wait,
                    .cause = recorder.name("starved"),
                    .channel = recorder.name("batches")};
  EXPECT_EQ(recorder.name("outer"), outer.stage);
  EXPECT_EQ(recorder.name(""), Name::none);
  const std::int64_t before = recorder.now_ns();
  {
    const SpanScope scope(lane, outer);
    const SpanScope nested(lane, inner);
  }
  lane.add(7, 9, outer);
  const std::int64_t after = recorder.now_ns();
  std::vector<Span> spans = recorder.spans();
  ASSERT_EQ(spans.size(), 3u);
  // The inner one begins later but may, by the clock, begin at the same time.
  EXPECT_EQ(spans[0].start_ns, 7);
  EXPECT_EQ(spans[0].end_ns, 9);
  if (spans[1].stage != "outer") std::swap(spans[1], spans[2]);
  EXPECT_LE(before, spans[1].start_ns);
  EXPECT_LE(spans[1].start_ns, spans[2].start_ns);
  EXPECT_LE(spans[2].start_ns, spans[2].end_ns);
  EXPECT_LE(spans[2].end_ns, spans[1].end_ns);
  EXPECT_LE(spans[1].end_ns, after);
  for (Span& span : spans) span.start_ns = span.end_ns = 0;
  const Span expected{.device = 1, .stage = "outer", .replica = 1, .step = 2, .sequence = 3};
  EXPECT_EQ(spans[0], expected);
  EXPECT_EQ(spans[1], expected);
  EXPECT_EQ(spans[2],
            (Span{.kind = SpanKind::wait, .device = 1, .cause = "starved", .channel = "batches"}));
  EXPECT_THROW(recorder.lane(2), Error);
}

TEST(Record, ALaneThatIsOffDoesNothing) {
  const Lane off;
  EXPECT_FALSE(off);
  EXPECT_EQ(off.now_ns(), 0);
  off.add(1, 2, {});
  off.add_until_now(1, {});
  const SpanScope scope(off, {.step = 1});
}

// Lanes, add(), new names and a reader, all at once: nothing is torn, and all is in order.
TEST(Record, TakesSpansFromManyThreadsWhileOthersRead) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint64_t kSpans = 20'000, kCapacity = 5000;
  Recorder recorder({.devices = {"a", "b", "c", "d"}}, {.capacity = kCapacity});
  std::atomic<std::uint32_t> running = kThreads;
  std::vector<std::jthread> threads;
  for (std::uint32_t device = 0; device < kThreads; ++device)
    threads.emplace_back([&, device] {
      const Lane lane = device > 0 ? recorder.lane(device) : Lane();
      const std::string stage = "stage of " + std::to_string(device);
      const Name name = recorder.name(stage);
      for (std::uint64_t i = 0; i < kSpans; ++i) {
        const std::int64_t start = recorder.now_ns();
        if (lane) {
          const SpanScope span(lane, {.stage = name, .step = ~i, .sequence = i});
        } else {
          recorder.add({.start_ns = start,
                        .end_ns = recorder.now_ns(),
                        .stage = stage,
                        .step = ~i,
                        .sequence = i});
        }
      }
      --running;
    });
  for (bool last = false; !last;) {
    last = running == 0;
    std::vector<std::vector<Span>> by_device(kThreads);
    for (Span& span : recorder.spans()) {
      ASSERT_EQ(span.stage, "stage of " + std::to_string(span.device));
      ASSERT_EQ(span.step, ~span.sequence);
      ASSERT_LE(span.start_ns, span.end_ns);
      by_device[span.device].push_back(std::move(span));
    }
    for (std::vector<Span>& spans : by_device) {
      ASSERT_LE(spans.size(), kCapacity);
      std::sort(spans.begin(), spans.end(),
                [](const Span& a, const Span& b) { return a.sequence < b.sequence; });
      for (std::size_t i = 1; i < spans.size(); ++i) {
        ASSERT_EQ(spans[i].sequence, spans[i - 1].sequence + 1);
        ASSERT_GE(spans[i].start_ns, spans[i - 1].end_ns);
      }
      if (!last) continue;
      ASSERT_EQ(spans.size(), kCapacity);
      ASSERT_EQ(spans.back().sequence, kSpans - 1);
    }
  }
  EXPECT_EQ(recorder.dropped(), kThreads * (kSpans - kCapacity));
}

TEST(Record, TraceIsAChromeArrayWithOneEventALine) {
  const TraceHeader header{.plan_hash = "0123",
                           .schedule = "async",
                           .devices = {"gpu \"0\"\n", "host"},
                           .host_threads = 1};
  const std::vector<Span> spans = {{.start_ns = 1234,
                                    .end_ns = 5000,
                                    .stage = "target\xff",
                                    .replica = 1,
                                    .step = 2,
                                    .sequence = 5},
                                   {.start_ns = 5000,
                                    .end_ns = 6000,
                                    .kind = SpanKind::wait,
                                    .device = 1,
                                    .cause = "starved",
                                    .channel = "batches"}};
  const testing::TemporaryFolder folder;
  write_trace(folder / "trace.json", header, spans);
  const std::string text = folder.read("trace.json");
  const nlohmann::json events = nlohmann::json::parse(text);
  ASSERT_TRUE(events.is_array());
  EXPECT_EQ(events[0]["args"]["schema"], "headrace-trace-1");
  EXPECT_EQ(events[0]["args"]["plan_hash"], "0123");
  const nlohmann::json work = events[events.size() - 2], wait = events.back();
  EXPECT_EQ(work["ph"], "X");
  EXPECT_EQ(work["cat"], "work");
  EXPECT_EQ(work["ts"], 1.234);
  EXPECT_EQ(work["dur"], 3.766);
  EXPECT_EQ(work["args"]["t_ns"], 1234);
  EXPECT_EQ(work["args"]["dur_ns"], 3766);
  EXPECT_EQ(work["args"]["device"], header.devices[0]);
  EXPECT_EQ(wait["name"], "starved");
  EXPECT_EQ(wait["tid"], 1);
  EXPECT_EQ(wait["args"]["channel"], "batches");
  std::set<std::string> lanes;
  for (const nlohmann::json& event : events)
    if (event["name"] == "thread_name") lanes.insert(event["args"]["name"]);
  EXPECT_EQ(lanes, std::set<std::string>(header.devices.begin(), header.devices.end()));
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            events.size() + 2);
}

}  // namespace
}  // namespace headrace
