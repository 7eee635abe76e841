// The trace that a Recorder writes while the run goes on: read while it grows, after its end, after
// SIGKILL and where the disk was full.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <random>
#include <thread>

#include "headrace/error.h"
#include "headrace/record.h"
#include "headrace/trace_reader.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class StreamedTrace : public ::testing::Test {
 protected:
  const TraceHeader header_{
      .plan_hash = "0123", .schedule = "async", .devices = {"a", "\"dropped\":7", "host"}};
  testing::TemporaryFolder folder_;
  const std::string path_ = folder_ / "trace.json";

  // Waits until the growing file fulfils `condition`, which it does unless something is broken.
  Trace wait_for(const std::function<bool(const Trace&)>& condition) const {
    for (const Clock::time_point give_up = Clock::now() + 30s; Clock::now() < give_up;) {
      Trace trace = read_trace(path_);
      if (condition(trace)) return trace;
      std::this_thread::sleep_for(10ms);
    }
    ADD_FAILURE() << "the file never came to be as expected";
    return {};
  }
};

// Runs `child` in a process of its own; where that returns true, the exit status is 0.
pid_t in_child(const std::function<bool()>& child) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  bool good = false;
  try {
    good = child();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "in the child: %s\n", error.what());
  }
  ::_exit(good ? 0 : 1);
}

int wait_status(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

TEST_F(StreamedTrace, IsWholeAtTheEndAndHasMoreThanMemoryKept) {
  std::vector<Span> all;
  {
    Recorder recorder(header_, {.capacity = 2, .path = path_});
    const Lane lane = recorder.lane(2);
    for (std::uint64_t i = 0; i < 6; ++i) {
      all.push_back({.start_ns = static_cast<std::int64_t>(i),
                     .end_ns = 20,
                     .device = static_cast<std::uint32_t>(i % 2 * 2),
                     .stage = "learn \"it\"\xff",
                     .step = i});
      if (i % 2 == 0) {
        recorder.add(all.back());
      } else {
        lane.add(all.back().start_ns, 20, {.stage = recorder.name(all.back().stage), .step = i});
      }
      all.back().stage = "learn \"it\"\uFFFD";
      const Trace trace = wait_for([&](const Trace& now) { return now.spans.size() == i + 1; });
      ASSERT_TRUE(trace.cut_off);
    }
    EXPECT_EQ(recorder.dropped(), 2u);
    recorder.finish();
    recorder.finish();
    recorder.add({.stage = "too late"});
  }
  const Trace trace = read_trace(path_);
  EXPECT_FALSE(trace.cut_off);
  EXPECT_EQ(trace.header, header_);
  EXPECT_EQ(trace.spans, all);
  // The same text as when it is written at once.
  const std::string streamed = folder_.read("trace.json");
  write_trace(path_, header_, all);
  EXPECT_EQ(folder_.read("trace.json"), streamed);
}

TEST_F(StreamedTrace, CountsInItsHeaderWhatCameTooFastForIt) {
  constexpr std::uint64_t kSpans = 300'000;
  Recorder recorder(header_, {.capacity = 100, .path = path_});
  const Lane lane = recorder.lane(0);
  for (std::uint64_t i = 0; i < kSpans; ++i) lane.add(0, 1, {.sequence = i});
  recorder.finish();
  const Trace trace = read_trace(path_);
  EXPECT_FALSE(trace.cut_off);
  EXPECT_GT(trace.header.dropped, 0u);
  EXPECT_EQ(trace.header.dropped + trace.spans.size(), kSpans);
  std::uint64_t sequence = 0;
  for (const Span& span : trace.spans) {
    EXPECT_GE(span.sequence, sequence);
    sequence = span.sequence + 1;
  }
  EXPECT_EQ(sequence, kSpans) << "the newest are kept";
}

TEST_F(StreamedTrace, ReplacesWhatWasThereAndNeedsAFolder) {
  folder_.write("trace.json", "something else");
  const Recorder recorder(header_, {.path = path_});
  EXPECT_EQ(read_trace(path_).header, header_) << "at once";
  try {
    const Recorder nowhere(header_, {.path = folder_ / "absent/trace.json"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find("absent/trace.json"), std::string::npos);
  }
}

// What three threads of a child recorded, and when each span had ended at the latest.
struct Log {
  static constexpr std::size_t kThreads = 3, kSpans = 1 << 16;  // five minutes
  std::array<std::atomic<std::uint64_t>, kThreads> count;
  std::array<std::array<std::int64_t, kSpans>, kThreads> ended_ns;
};

std::int64_t steady_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

void record_until_killed(Log& log, Recorder& recorder) {
  std::vector<std::jthread> threads;
  for (std::uint32_t device = 0; device < Log::kThreads; ++device)
    threads.emplace_back([&, device] {
      std::mt19937 random(device);
      const Lane lane = device > 0 ? recorder.lane(device) : Lane();
      const Name stage = recorder.name("work");
      for (std::uint64_t i = 0; i < Log::kSpans; ++i) {
        const std::int64_t start = recorder.now_ns();
        const std::chrono::microseconds pause(random() % 8000);
        {
          const SpanScope span(lane, {.stage = stage, .sequence = i});
          std::this_thread::sleep_for(pause);
        }
        if (!lane) {
          recorder.add({.start_ns = start,
                        .end_ns = recorder.now_ns(),
                        .device = device,
                        .stage = "work",
                        .sequence = i});
        }
        log.ended_ns[device][i] = steady_ns();
        log.count[device].store(i + 1, std::memory_order_release);
      }
    });
}

// Every span that had ended a second before SIGKILL is in the file, which is valid, and those of
// each thread are there without a gap.
TEST_F(StreamedTrace, SigkillLosesAtMostTheLastSecond) {
  constexpr int kKills = 6;
  struct Child {
    std::string path;
    Log* log;
    pid_t pid;
  };
  std::vector<Child> children;
  for (int i = 0; i < kKills; ++i) {
    void* shared =
        ::mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    Log* log = new (shared) Log{};
    const std::string path = folder_ / fmt::format("{}.json", i);
    const pid_t pid = in_child([&] {
      Recorder recorder(header_, {.path = path});
      record_until_killed(*log, recorder);
      return false;  // it should have been killed
    });
    ASSERT_GT(pid, 0);
    children.push_back({path, log, pid});
  }
  std::random_device seed;
  std::mt19937 random(seed());
  std::size_t expected = 0;
  for (Child& child : children) {
    while (child.log->count[Log::kThreads - 1] == 0) std::this_thread::sleep_for(1ms);
    // The first is killed a second and a half after it began, the others after it one by one.
    const auto pause =
        (&child == children.data() ? 1500ms : 0ms) + std::chrono::microseconds(random() % 250'000);
    std::this_thread::sleep_for(pause);
    std::array<std::uint64_t, Log::kThreads> count;
    for (std::size_t t = 0; t < count.size(); ++t) count[t] = child.log->count[t];
    const std::int64_t promised_until = steady_ns() - 1'000'000'000;
    ASSERT_EQ(::kill(child.pid, SIGKILL), 0);
    const int status = wait_status(child.pid);
    ASSERT_TRUE(WIFSIGNALED(status));

    const Trace trace = read_trace(child.path);
    EXPECT_TRUE(trace.cut_off);
    EXPECT_EQ(trace.header, header_);
    std::map<std::uint32_t, std::uint64_t> found;
    for (const Span& span : trace.spans) {
      EXPECT_EQ(span.stage, "work");
      EXPECT_EQ(span.sequence, found[span.device]++);
    }
    for (std::uint32_t t = 0; t < Log::kThreads; ++t) {
      std::uint64_t promised = 0;
      while (promised < count[t] && child.log->ended_ns[t][promised] <= promised_until) ++promised;
      EXPECT_GE(found[t], promised) << "of " << count[t] << " on " << t;
      expected += promised;
    }
    ::munmap(child.log, sizeof(Log));
  }
  EXPECT_GT(expected, 100u);
}

// A file-size limit is a full disk that a test can have: writes are cut short, then refused.
class FullDisk : public StreamedTrace {
 protected:
  static constexpr std::uint64_t kSpans = 20'000;
  static void allow(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  static void fill(Recorder& recorder, rlim_t room = 100'000) {
    allow(room);
    for (std::uint64_t i = 0; i < kSpans; ++i) recorder.add({.stage = "work", .sequence = i});
  }
  // What finish() says; "" where that is no Error(io) about the file.
  std::string problem_at_end(Recorder& recorder) const {
    try {
      recorder.finish();
      return "";
    } catch (const Error& error) {
      const std::string message = error.what();
      return error.code() == ErrorCode::io && message.starts_with(path_) ? message : "";
    }
  }
  static void expect_in_order(const Trace& trace) {
    for (std::uint64_t i = 0; i < trace.spans.size(); ++i) EXPECT_EQ(trace.spans[i].sequence, i);
  }
};

TEST_F(FullDisk, DoesNotStopTheRunAndIsToldOnceAtItsEnd) {
  const pid_t child = in_child([&] {
    Recorder recorder(header_, {.path = path_});
    fill(recorder);
    std::this_thread::sleep_for(600ms);  // the background thread meets it too, as a rule
    if (problem_at_end(recorder).find("spans are missing") == std::string::npos) return false;
    recorder.finish();
    return recorder.spans().size() == kSpans;
  });
  EXPECT_EQ(wait_status(child), 0);
  const Trace trace = read_trace(path_);
  EXPECT_TRUE(trace.cut_off);
  EXPECT_LT(trace.spans.size(), kSpans);
  EXPECT_TRUE(folder_.read("trace.json").ends_with('}')) << "whole lines";
  expect_in_order(trace);
}

// What memory has lost is counted in the header, what it still has in the error.
TEST_F(FullDisk, CountsWhatIsMissingOnce) {
  constexpr std::uint64_t kKept = 100;
  const pid_t child = in_child([&] {
    Recorder recorder(header_, {.capacity = kKept, .path = path_});
    fill(recorder, std::filesystem::file_size(path_));
    return problem_at_end(recorder).find("its last 100 spans are missing") != std::string::npos;
  });
  EXPECT_EQ(wait_status(child), 0);
  const Trace trace = read_trace(path_);
  EXPECT_TRUE(trace.spans.empty());
  EXPECT_EQ(trace.header.dropped, kSpans - kKept);
}

// Room for all but the closing bracket.
TEST_F(FullDisk, IsNotSaidToLackSpansThatAreThere) {
  const pid_t child = in_child([&] {
    Recorder recorder(header_, {.path = path_});
    recorder.add({.stage = "work"});
    wait_for([](const Trace& trace) { return trace.spans.size() == 1; });
    allow(std::filesystem::file_size(path_));
    return problem_at_end(recorder).find("cannot be flushed or ended") != std::string::npos;
  });
  EXPECT_EQ(wait_status(child), 0);
  EXPECT_EQ(read_trace(path_).spans.size(), 1u);
}

TEST_F(FullDisk, CostsNothingOnceThereIsRoomAgain) {
  const pid_t child = in_child([&] {
    Recorder recorder(header_, {.path = path_});
    fill(recorder);
    std::this_thread::sleep_for(600ms);
    allow(RLIM_INFINITY);
    recorder.finish();
    return true;
  });
  EXPECT_EQ(wait_status(child), 0);
  const Trace trace = read_trace(path_);
  EXPECT_FALSE(trace.cut_off);
  EXPECT_EQ(trace.header.dropped, 0u);
  EXPECT_EQ(trace.spans.size(), kSpans);
  expect_in_order(trace);
}

}  // namespace
}  // namespace headrace
