#include "train/dflash_run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "headrace/error.h"
#include "headrace/simulator.h"
#include "headrace/thread.h"
#include "headrace/trace_reader.h"
#include "nn/threads.h"
#include "train/interrupt.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kCostSamples = 64;

double mean_of_last(const std::vector<StepLog>& log, std::size_t first, std::size_t count) {
  const std::size_t from = std::max(first, log.size() > count ? log.size() - count : 0);
  double sum = 0;
  for (std::size_t i = from; i < log.size(); ++i) sum += log[i].loss;
  return from < log.size() ? sum / static_cast<double>(log.size() - from) : 0;
}

// Where the file cannot be created it records without one, and clears the path.
std::unique_ptr<Recorder> open_recorder(const TraceHeader& header, RecorderOptions& options) {
  try {
    return std::make_unique<Recorder>(header, options);
  } catch (const Error& error) {
    if (options.path.empty()) throw;
    fmt::print(stderr, "headrace: {}; the run goes on without that file\n", error.what());
  }
  options.path.clear();
  return std::make_unique<Recorder>(header, options);
}

// What the trace's file says, which holds more than memory where spans were dropped.
Accounting accounting_of(Recorder& recorder, const DflashRun& run, const std::string& path) {
  try {
    recorder.finish();
    if (run.header.dropped > 0 && !path.empty()) {
      const Trace trace = read_trace(path);
      return account(trace.header, trace.spans);
    }
  } catch (const Error& error) {
    fmt::print(stderr, "headrace: {}\n", error.what());
  }
  return account(run.header, run.spans);
}

}  // namespace

std::jthread stop_on_interrupt(Executor& executor) {
  return std::jthread([&executor](std::stop_token stop) {
    while (!stop.stop_requested()) {
      if (interrupted()) return executor.request_stop();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
}

void use_all_cores() {
  set_compute_threads(static_cast<int>(allowed_cores().size()));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const std::size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + half, values.end());
  if (values.size() % 2 == 1) return values[half];
  return (values[half] + *std::max_element(values.begin(), values.begin() + half)) / 2;
}

Plan with_measured_costs(Plan plan, const TraceHeader& header, const std::vector<Span>& spans) {
  for (Stage& stage : plan.stages) {
    std::vector<double> durations, later;
    // A stage that holds several devices has a span on each: count those of its first device.
    for (const Span& span : spans) {
      if (span.kind == SpanKind::wait || span.stage != stage.name) continue;
      if (stage.replicas == 1 && header.devices[span.device] != stage.on.front()) continue;
      const double seconds = static_cast<double>(span.end_ns - span.start_ns) / 1e9;
      durations.push_back(seconds);
      if (span.step > 0) later.push_back(seconds);
    }
    std::vector<double>& chosen = later.empty() ? durations : later;
    if (chosen.size() > kCostSamples) chosen.erase(chosen.begin(), chosen.end() - kCostSamples);
    stage.cost = {chosen, {}};
  }
  return plan;
}

DflashRun run_plan(const PlacedPlan& placed, DflashTrainer& trainer, const RunOptions& wanted,
                   const std::function<bool(const StepLog&)>& on_step) {
  DflashRun run;
  run.name = wanted.name;
  const std::size_t first_step = trainer.log().size();
  const std::uint64_t first_tokens = trainer.tokens();
  const TraceHeader header = trace_header(placed.plan, placed.plan.schedule);
  RecorderOptions recording{.capacity = wanted.trace_capacity, .path = wanted.trace_path};
  const std::unique_ptr<Recorder> recorder = open_recorder(header, recording);

  const auto start = Clock::now();
  auto last = start;
  Executor* running = nullptr;
  ExecutorOptions options;
  options.steps = wanted.until > trainer.steps() ? wanted.until - trainer.steps() : 0;
  options.cores = placed.placement.cores;
  options.replan = wanted.replan;
  options.on_worker_start = [&](const std::string& resource) {
    set_compute_threads(static_cast<int>(placed.placement.threads(resource)));
  };
  options.on_step = [&](std::uint64_t) {
    const auto now = Clock::now();
    if (trainer.log().size() > first_step + 1)
      run.intervals.push_back(std::chrono::duration<double>(now - last).count());
    last = now;
    if (!on_step(trainer.log().back())) running->request_stop();
  };
  Executor executor(placed.plan, placed.plan.schedule, trainer.functions(), options,
                    recorder.get());
  running = &executor;
  {
    const std::jthread watcher = stop_on_interrupt(executor);
    run.outcome = executor.run();
  }
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  run.replan = executor.replanned();
  run.steps = trainer.log().size() - first_step;
  run.tokens = trainer.tokens() - first_tokens;
  run.step_seconds_p50 = median(run.intervals);
  if (run.steps > 0) run.loss_first = trainer.log()[first_step].loss;
  run.loss_last = mean_of_last(trainer.log(), first_step, 10);
  run.weights_sha256 = trainer.weights_sha256();
  run.header = recorder->header();
  run.spans = recorder->spans();
  run.accounting = accounting_of(*recorder, run, recording.path);
  const bool replanned = run.replan && run.replan->applied_at_step > 0;
  run.plan = with_measured_costs(replanned ? run.replan->plan : placed.plan, run.header, run.spans);
  if (run.steps > 0) run.bound_seconds = bound(run.plan);
  return run;
}

}  // namespace headrace
