// What a firing costs when its stage does next to nothing: a chain of three stages on three threads,
// beside the same chain of three threads over two queues of a mutex and condition variables.
// usage: bench_executor [Google Benchmark's flags]. `firing` is the time for one.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "headrace/executor.h"

namespace headrace {
namespace {

constexpr long kItems = 100'000;

void report(benchmark::State& state, long sum) {
  if (sum != kItems * (kItems - 1)) state.SkipWithError("the sum is wrong");
  state.counters["firing"] = benchmark::Counter(
      3.0 * kItems, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

Plan chain(std::int64_t depth, bool one_thread) {
  return parse_plan(fmt::format(R"(version: 1
resources: {{a: {{kind: device}}, b: {{kind: device}}, c: {{kind: device}}}}
stages:
  make: {{on: a, outputs: [numbers]}}
  twice: {{on: {}, inputs: [numbers], outputs: [doubled]}}
  sum: {{on: {}, inputs: [doubled]}}
channels: {{numbers: {{items: {}}}, doubled: {{items: {}}}}}
schedule: async
)",
                                one_thread ? "a" : "b", one_thread ? "a" : "c", depth, depth),
                    "executor_bench");
}

void run_chain(benchmark::State& state, bool one_thread, bool records) {
  const Plan plan = chain(state.range(0), one_thread);
  long sum = 0;
  std::map<std::string, StageFunction> functions;
  functions["make"] = [](Context& context) {
    context.outputs[0].payload = static_cast<long>(context.firing.sequence);
    return context.firing.sequence < static_cast<std::uint64_t>(kItems);
  };
  functions["twice"] = [](Context& context) {
    context.outputs[0].payload = 2 * context.input<long>();
    return true;
  };
  functions["sum"] = [&sum](Context& context) { return sum += context.input<long>(), true; };
  for (auto _ : state) {
    sum = 0;
    Recorder recorder(trace_header(plan, plan.schedule));
    Executor(plan, plan.schedule, functions, {}, records ? &recorder : nullptr).run();
  }
  report(state, sum);
}

void executor(benchmark::State& state) {
  run_chain(state, false, false);
}
void executor_recording(benchmark::State& state) {
  run_chain(state, false, true);
}
void executor_on_one_thread(benchmark::State& state) {
  run_chain(state, true, false);
}

class MutexQueue {
 public:
  explicit MutexQueue(std::size_t depth) : depth_(depth) {}
  void push(long value) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return items_.size() < depth_; });
    items_.push_back(value);
    filled_.notify_one();
  }
  long pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return !items_.empty(); });
    const long value = items_.front();
    items_.pop_front();
    room_.notify_one();
    return value;
  }

 private:
  const std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable room_, filled_;
  std::deque<long> items_;
};

void mutex_queues(benchmark::State& state) {
  long sum = 0;
  for (auto _ : state) {
    sum = 0;
    MutexQueue numbers(static_cast<std::size_t>(state.range(0))),
        doubled(static_cast<std::size_t>(state.range(0)));
    const std::jthread make([&] {
      for (long i = 0; i < kItems; ++i) numbers.push(i);
    });
    const std::jthread twice([&] {
      for (long i = 0; i < kItems; ++i) doubled.push(2 * numbers.pop());
    });
    for (long i = 0; i < kItems; ++i) sum += doubled.pop();
  }
  report(state, sum);
}

BENCHMARK(executor)->Arg(1)->Arg(4)->Arg(64)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(executor_recording)->Arg(4)->Arg(64)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(executor_on_one_thread)->Arg(4)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(mutex_queues)->Arg(1)->Arg(4)->Arg(64)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace headrace

BENCHMARK_MAIN();
