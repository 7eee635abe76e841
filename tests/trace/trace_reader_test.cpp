#include "headrace/trace_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "headrace/accounting.h"
#include "headrace/error.h"
#include "headrace/executor.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

class TraceReader : public ::testing::Test {
 protected:
  std::string written(const TraceHeader& header, const std::vector<Span>& spans) const {
    write_trace(path_, header, spans);
    return folder_.read("trace.json");
  }
  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_ / "trace.json";
};

const TraceHeader kHeader{.plan_hash = "00ff",
                          .schedule = "async",
                          .devices = {"gpu \"0\"", "loader\xc3\xa9"},
                          .host_threads = 1,
                          .dropped = 3};
const std::vector<Span> kSpans = {
    {.start_ns = -5, .end_ns = 10, .kind = SpanKind::wait, .cause = "startup"},
    {.start_ns = 10,
     .end_ns = 3'000'000'001,
     .stage = "target",
     .replica = 1,
     .step = 7,
     .sequence = 15},
    {.start_ns = 10, .end_ns = 20, .kind = SpanKind::copy, .device = 1, .stage = "load"},
    {.start_ns = 20, .end_ns = 20, .kind = SpanKind::sync, .stage = "sync"},
    {.start_ns = 20,
     .end_ns = 25,
     .kind = SpanKind::wait,
     .device = 1,
     .stage = "load",
     .cause = "back_pressured",
     .channel = "batches"}};

TEST_F(TraceReader, GivesBackWhatWasWritten) {
  written(kHeader, kSpans);
  const Trace trace = read_trace(path_);
  EXPECT_EQ(trace.header, kHeader);
  EXPECT_EQ(trace.spans, kSpans);
  EXPECT_FALSE(trace.cut_off);
}

TEST_F(TraceReader, EveryTruncationGivesTheWholeEventsOrAClearError) {
  const std::string text = written(kHeader, kSpans);
  const std::size_t header_end = text.find('\n', 2);
  for (std::size_t length = 0; length < text.size() - 2; ++length) {
    try {
      const Trace trace = parse_trace(std::string_view(text).substr(0, length), "t.json");
      EXPECT_TRUE(trace.cut_off) << length;
      ASSERT_LE(trace.spans.size(), kSpans.size());
      EXPECT_TRUE(std::equal(trace.spans.begin(), trace.spans.end(), kSpans.begin()));
    } catch (const Error& error) {
      EXPECT_LT(length, header_end) << error.what();
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      EXPECT_EQ(std::string(error.what()).substr(0, 6), "t.json");
    }
  }
}

TEST_F(TraceReader, RefusesWhatIsNotOurs) {
  const std::string text = written(kHeader, kSpans);
  const auto message = [](const std::string& changed) -> std::string {
    try {
      parse_trace(changed, "t.json");
      return "accepted";
    } catch (const Error& error) {
      return error.code() == ErrorCode::bad_input ? error.what() : "wrong code";
    }
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return message(changed);
  };
  EXPECT_EQ(message(text), "accepted");
  EXPECT_NE(message("").find("not a trace of Headrace"), std::string::npos);
  for (const char* foreign : {"{\"traceEvents\": [\n{\"ph\": \"X\"}\n]}", "[\n{\"ph\": \"X\"}\n]",
                              "{\"traceEvents\": []}\n", "[1, 2]\n", "text\nmore text\n"})
    EXPECT_NE(message(foreign).find("t.json: not a trace of Headrace"), std::string::npos)
        << foreign;
  EXPECT_NE(with("headrace-trace-1", "headrace-trace-9").find("t.json:2: schema"),
            std::string::npos);
  EXPECT_NE(with("\"cat\":\"copy\"", "\"cat\":\"rest\"").find("rest"), std::string::npos);
  EXPECT_NE(with("\"cause\":\"startup\"", "\"cause\":\"tired\"").find("tired"), std::string::npos);
  EXPECT_NE(with("\"tid\":1,\"args\":{\"device\"", "\"tid\":2,\"args\":{\"device\"").find("tid"),
            std::string::npos);
  EXPECT_NE(with("\"dur_ns\":15", "\"dur_ns\":-1").find("dur_ns"), std::string::npos);
  EXPECT_NE(with("\"t_ns\":-5", "\"t_ns\":-9223372036854775808").find("out of range"),
            std::string::npos);
  EXPECT_NE(with("\"t_ns\":-5", "\"t_ns\":1e30").find("t_ns"), std::string::npos);
  EXPECT_NE(with("\"ph\":\"X\"", "\"ph\":\"X").find("not an event"), std::string::npos);
  EXPECT_THROW(read_trace("/absent.json"), Error);
  EXPECT_THROW(read_trace("/"), Error);
}

// A run, its trace written and read back, its shares: the same as from the recorder's memory,
// without a gap or an overlap on any lane, and as the stages slept.
TEST_F(TraceReader, ARunsSharesSurviveTheFile) {
  using namespace std::chrono_literals;
  Plan plan{.name = "run"};
  plan.resources = {{"host", ResourceKind::host}, {"a"}, {"b"}};
  plan.stages = {{.name = "load", .on = {"host"}, .outputs = {"x"}},
                 {.name = "use", .on = {"a"}, .inputs = {"x"}, .outputs = {"y"}},
                 {.name = "learn", .on = {"b"}, .inputs = {"y"}},
                 {.name = "sync", .on = {"a", "b"}, .after = {{"learn"}}}};
  plan.channels = {{.name = "x", .items = 2}, {.name = "y", .items = 2}};
  constexpr std::uint64_t kSteps = 12;
  for (const std::string& name : standard_schedules()) {
    SCOPED_TRACE(name);
    Recorder recorder(trace_header(plan, {.name = name}));
    const auto sleeps = [](auto duration) {
      return [duration](Context& context) {
        std::this_thread::sleep_for(duration);
        return !context.inputs.empty() || context.outputs.empty() || context.firing.step < kSteps;
      };
    };
    Executor executor(plan, {.name = name},
                      {{"load", sleeps(100us)},
                       {"use", sleeps(2ms)},
                       {"learn", sleeps(1ms)},
                       {"sync", sleeps(300us)}},
                      {}, &recorder);
    ASSERT_EQ(executor.run(), Outcome::finished);
    const std::vector<Span> spans = recorder.spans();
    write_trace(path_, recorder.header(), spans);
    const Trace trace = read_trace(path_);
    ASSERT_EQ(trace.spans, spans);
    EXPECT_EQ(trace.header.devices, (std::vector<std::string>{"a", "b", "host"}));

    std::map<std::uint32_t, std::int64_t> end;
    for (const Span& span : spans) {
      const auto before = end.try_emplace(span.device, span.start_ns).first;
      EXPECT_EQ(span.start_ns, before->second) << "gap or overlap";
      before->second = span.end_ns;
    }
    EXPECT_EQ(end.size(), 3u);
    const Accounting result = account(trace.header, trace.spans);
    ASSERT_EQ(result.devices.size(), 2u);
    for (const DeviceAccount& device : result.devices) {
      EXPECT_EQ(device.startup_ns + device.span_ns() + device.tail_ns, result.host_span_ns());
      EXPECT_EQ(device.busy_ns_by_step.size(), kSteps);
      EXPECT_GT(device.startup_ns, 0);
    }
    EXPECT_GE(result.devices[0].busy_ns, static_cast<std::int64_t>(kSteps) * 2'300'000);
    EXPECT_GE(result.devices[1].busy_ns, static_cast<std::int64_t>(kSteps) * 1'300'000);
    EXPECT_GT(result.devices[1].starved_ns + result.devices[1].synchronising_ns,
              result.devices[1].host_ns);
    const auto syncs = std::count_if(spans.begin(), spans.end(),
                                     [](const Span& s) { return s.kind == SpanKind::sync; });
    EXPECT_EQ(static_cast<std::uint64_t>(syncs), 2 * kSteps) << "one on each device";
  }
}

}  // namespace
}  // namespace headrace
