#include "headrace/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "headrace/error.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

TEST(Record, KeepsTheNewestAndCountsTheRest) {
  Recorder recorder({.devices = {"gpu0"}}, 4);
  for (int i = 9; i >= 0; --i) recorder.add({.start_ns = i, .end_ns = i + 1});
  EXPECT_EQ(recorder.dropped(), 6u);
  EXPECT_EQ(recorder.header().dropped, 6u);
  const std::vector<Span> spans = recorder.spans();
  ASSERT_EQ(spans.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(spans[i].start_ns, i) << "sorted by start";
  EXPECT_THROW(recorder.add({.device = 1}), Error);
}

TEST(Record, TakesSpansFromManyThreads) {
  Recorder recorder({.devices = {"a", "b", "c", "d"}});
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t device = 0; device < 4; ++device)
      threads.emplace_back([&recorder, device] {
        for (int i = 0; i < 1000; ++i)
          recorder.add({.start_ns = recorder.now_ns(), .device = device});
      });
  }
  EXPECT_EQ(recorder.spans().size(), 4000u);
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
