// How long after the end of a piece of GPU work its credit is back, and how long the stream is held
// up for that: ours against the ways that hold the stream, burn a core or block a thread. All in one
// run. Needs a GPU.
//
// A copy of 32 MiB is the work. A mark is copied to pinned memory right behind it, which a host
// thread watches: the mark's time is the end of the work as the host can first know it.
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "gpu/gpu_stream.h"
#include "headrace/error.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kWork = 32 << 20;
constexpr int kRounds = 300;

void check(cudaError_t error) {
  if (error != cudaSuccess) fail(ErrorCode::resource, "CUDA: {}", cudaGetErrorString(error));
}

double us(Clock::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

struct Series {
  std::vector<double> values;
  double at(double share) {
    std::ranges::sort(values);
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  }
};

void print(const char* way, Series& delay) {
  fmt::print("{:<58} {:8.1f} {:8.1f} {:8.1f}\n", way, delay.at(0.5), delay.at(0.9), delay.at(1));
}

// A stream of the benchmark's own, and its memory.
struct Bench {
  GpuStream stream;  // ours
  cudaStream_t plain = nullptr;
  cudaEvent_t event = nullptr, blocking = nullptr;
  std::shared_ptr<std::byte[]> host = stream.pinned_memory(kWork),
                               device = stream.device_memory(kWork),
                               marks = stream.pinned_memory(16), one = stream.device_memory(4);

  Bench() {
    check(cudaSetDevice(0));
    check(cudaStreamCreateWithFlags(&plain, cudaStreamNonBlocking));
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    check(cudaEventCreateWithFlags(&blocking, cudaEventDisableTiming | cudaEventBlockingSync));
    check(cudaMemset(one.get(), 1, 4));
    check(cudaDeviceSynchronize());
  }

  std::atomic_ref<std::uint32_t> mark(int i) {
    return std::atomic_ref(reinterpret_cast<std::uint32_t*>(marks.get())[i]);
  }
  void clear() {
    for (int i = 0; i < 2; ++i) mark(i).store(0);
  }
  // Spins until the device has set the mark.
  Clock::time_point marked(int i) {
    while (mark(i).load(std::memory_order_acquire) == 0) {
    }
    return Clock::now();
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, plain));
  }
  void work() {
    copy(device.get(), host.get(), kWork);
    copy(&reinterpret_cast<std::uint32_t*>(marks.get())[0], one.get(), 4);
  }

  // `after` queues the notification and returns a function that gives the time of the credit.
  Series delays(const std::function<void()>& queue_work,
                const std::function<std::function<Clock::time_point()>()>& after) {
    Series series;
    for (int i = 0; i < kRounds; ++i) {
      clear();
      queue_work();
      const auto credit = after();
      const Clock::time_point end = marked(0);
      series.values.push_back(us(credit() - end));
    }
    return series;
  }
};

// A time that another thread sets.
struct Stamp {
  std::atomic<Clock::rep> at{0};
  void set() { at.store(Clock::now().time_since_epoch().count()); }
  Clock::time_point get() const {
    while (at.load() == 0) {
    }
    return Clock::time_point(Clock::duration(at.load()));
  }
};

void delays(Bench& bench) {
  fmt::print("{:<58} {:>8} {:>8} {:>8}\n", "from the end of the work to the credit, us", "median",
             "90 %", "most");
  const auto plain = [&] { bench.work(); };
  const auto ours_queued = [&] {
    bench.stream.copy(bench.device.get(), bench.host.get(), kWork);
    bench.stream.copy(bench.marks.get(), bench.one.get(), 4);
  };
  Credits credits("credits", 1);
  Series ours = bench.delays(ours_queued, [&] {
    Credits::Credit credit;
    credits.acquire(credit);
    credit.release_after(bench.stream.record());
    return [&] {
      while (credits.available() == 0) {
      }
      return Clock::now();
    };
  });
  print("ours: event, second stream, host function", ours);

  Series woken = bench.delays(ours_queued, [&] {
    Credits::Credit credit;
    credits.acquire(credit);
    credit.release_after(bench.stream.record());
    auto stamp = std::make_shared<Stamp>();
    auto waiter = std::make_shared<std::jthread>([&credits, stamp] {
      Credits::Credit again;
      credits.acquire(again);
      stamp->set();
    });
    return [stamp, waiter] { return stamp->get(); };
  });
  print("ours, until a thread asleep in acquire() goes on", woken);

  Series direct = bench.delays(plain, [&] {
    auto stamp = std::make_shared<Stamp>();
    check(cudaLaunchHostFunc(
        bench.plain, [](void* p) { static_cast<Stamp*>(p)->set(); }, stamp.get()));
    return [stamp] { return stamp->get(); };
  });
  print("host function in the stream itself", direct);

  const auto thread_that = [&](auto waits) {
    return [&bench, waits] {
      check(cudaEventRecord(bench.event, bench.plain));
      check(cudaEventRecord(bench.blocking, bench.plain));
      auto stamp = std::make_shared<Stamp>();
      auto thread = std::make_shared<std::jthread>([stamp, waits] {
        waits();
        stamp->set();
      });
      return [stamp, thread] { return stamp->get(); };
    };
  };
  Series spun = bench.delays(plain, thread_that([&] {
                               while (cudaEventQuery(bench.event) == cudaErrorNotReady) {
                               }
                             }));
  print("cudaEventQuery in a loop: a core burns", spun);
  Series polled = bench.delays(plain, thread_that([&] {
                                 while (cudaEventQuery(bench.event) == cudaErrorNotReady)
                                   std::this_thread::sleep_for(std::chrono::microseconds(50));
                               }));
  print("cudaEventQuery every 50 us: one thread for all", polled);
  Series blocked =
      bench.delays(plain, thread_that([&] { check(cudaEventSynchronize(bench.blocking)); }));
  print("cudaEventSynchronize, blocking: a thread a credit", blocked);
  fmt::print(
      "ours / each, medians: {:.2f} in the stream, {:.2f} spun, {:.2f} polled, {:.2f} blocked\n",
      ours.at(0.5) / direct.at(0.5), ours.at(0.5) / spun.at(0.5), ours.at(0.5) / polled.at(0.5),
      ours.at(0.5) / blocked.at(0.5));
}

// Between two marks in one stream, with the notification between them.
void held(Bench& bench) {
  fmt::print("\n{:<58} {:>8} {:>8} {:>8}\n", "what the notification holds the stream up, us",
             "median", "90 %", "most");
  std::uint32_t* marks = reinterpret_cast<std::uint32_t*>(bench.marks.get());
  const auto between = [&](const auto& copy, const std::function<void()>& notify) {
    Series series;
    for (int i = 0; i < kRounds; ++i) {
      bench.clear();
      copy(bench.device.get(), bench.host.get(), kWork);
      copy(&marks[0], bench.one.get(), 4);
      notify();
      copy(&marks[1], bench.one.get(), 4);
      const Clock::time_point first = bench.marked(0);
      series.values.push_back(us(bench.marked(1) - first));
    }
    return series;
  };
  const auto plain = [&](void* to, const void* from, std::size_t n) { bench.copy(to, from, n); };
  const auto ours = [&](void* to, const void* from, std::size_t n) {
    bench.stream.copy(to, from, n);
  };
  Series nothing = between(plain, [] {});
  print("nothing between the marks", nothing);
  Series with_ours = between(ours, [&] { bench.stream.record(); });
  print("ours: event, second stream, host function", with_ours);
  Series direct = between(plain, [&] {
    check(cudaLaunchHostFunc(
        bench.plain, [](void*) {}, nullptr));
  });
  print("host function in the stream itself", direct);
}

}  // namespace
}  // namespace headrace

int main() {
  try {
    headrace::Bench bench;
    fmt::print("{}, {} rounds\n\n", headrace::list_gpus().devices.at(0).name, headrace::kRounds);
    headrace::delays(bench);
    headrace::held(bench);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
