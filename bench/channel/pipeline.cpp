// A pipeline of four serial stages on two cores, ns an item: stages that only add one, and stages
// of 1 us and 10 us of work. usage: bench_channel_pipeline [--help]
//
// Nothing can be faster than max(sum of the stages / cores, longest stage), here half of what one
// thread needs without a queue; the percentage is how far the median is above that.
// Taskflow takes part where the build was given -DTASKFLOW_INCLUDE=DIR.
#include <fmt/format.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_pipeline.h>

#ifdef HEADRACE_BENCH_TASKFLOW
#include <taskflow/algorithm/pipeline.hpp>
#include <taskflow/taskflow.hpp>
#endif

#include <array>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "competitors.h"
#include "headrace/pipeline.h"
#include "transfer.h"
#include "work.h"

namespace headrace::bench {
namespace {

constexpr std::uint64_t stages = 4, tokens = 16;

// What each stage does to an item.
struct Stage {
  std::uint64_t steps;  // of work
  std::uint64_t operator()(std::uint64_t item) const {
    if (steps != 0) work(steps);
    return item + 1;
  }
};

void check_sum(std::uint64_t sum, std::uint64_t items, const char* name) {
  if (2 * sum != items * (items - 1) + 2 * items * stages)
    fail(ErrorCode::internal, "{}: items were lost, damaged or doubled", name);
}

// Runs one body on both cores and whatever threads it starts there.
template <typename Work>
Usage on_both_cores(const Options& options, Work work) {
  return run_together({{options.cores, work}});
}

Usage one_thread(const Options& options, Stage stage, std::uint64_t items) {
  std::uint64_t sum = 0;
  const Usage usage = on_both_cores(options, [&] {
    for (std::uint64_t item = 0; item < items; ++item) {
      std::uint64_t value = item;
      for (std::uint64_t i = 0; i < stages; ++i) {
        value = stage(value);
        asm volatile("" : "+r"(value));  // four additions, not one
      }
      sum += value;
    }
  });
  check_sum(sum, items, "one thread");
  return usage;
}

// One thread a stage.
template <typename Queue>
Usage thread_per_stage(const Options& options, Stage stage, std::uint64_t items) {
  std::vector<std::unique_ptr<Queue>> queues;
  for (std::uint64_t i = 1; i < stages; ++i) queues.push_back(std::make_unique<Queue>());
  std::uint64_t sum = 0;
  const auto source = [&] {
    for (std::uint64_t item = 0; item < items; ++item) {
      std::uint64_t value = stage(item);
      queues.front()->push(value);
    }
  };
  const auto middle = [&](std::uint64_t i) {
    std::uint64_t value = 0;
    for (std::uint64_t item = 0; item < items; ++item) {
      queues[i - 1]->pop(value);
      value = stage(value);
      queues[i]->push(value);
    }
  };
  const auto sink = [&] {
    std::uint64_t value = 0, total = 0;
    for (std::uint64_t item = 0; item < items; ++item) {
      queues.back()->pop(value);
      total += stage(value);
    }
    sum = total;
  };
  const Usage usage = run_together({{options.cores, source},
                                    {options.cores, [&] { middle(1); }},
                                    {options.cores, [&] { middle(2); }},
                                    {options.cores, sink}});
  check_sum(sum, items, Queue::name);
  return usage;
}

// `pinned`: two stages a core.
template <std::uint64_t capacity, bool pinned>
Usage headrace_pipeline(const Options& options, Stage stage, std::uint64_t items) {
  std::uint64_t sum = 0, next = 0;
  const Usage usage = on_both_cores(options, [&] {
    run_pipeline(
        {.capacity = capacity, .cores = pinned ? options.cores : std::vector<int>()},
        [&] { return next < items ? std::optional(stage(next++)) : std::nullopt; }, stage, stage,
        [&](std::uint64_t value) { sum += stage(value); });
  });
  check_sum(sum, items, "run_pipeline");
  return usage;
}

Usage one_tbb(const Options& options, Stage stage, std::uint64_t items) {
  std::uint64_t sum = 0;
  const Usage usage = on_both_cores(options, [&] {
    const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 2);
    constexpr auto serial = tbb::filter_mode::serial_in_order;
    std::uint64_t item = 0;
    tbb::parallel_pipeline(
        tokens,
        tbb::make_filter<void, std::uint64_t>(serial,
                                              [&](tbb::flow_control& control) -> std::uint64_t {
                                                if (item == items) {
                                                  control.stop();
                                                  return 0;
                                                }
                                                return stage(item++);
                                              }) &
            tbb::make_filter<std::uint64_t, std::uint64_t>(serial, stage) &
            tbb::make_filter<std::uint64_t, std::uint64_t>(serial, stage) &
            tbb::make_filter<std::uint64_t, void>(
                serial, [&](std::uint64_t value) { sum += stage(value); }));
  });
  check_sum(sum, items, "tbb::parallel_pipeline");
  return usage;
}

#ifdef HEADRACE_BENCH_TASKFLOW
Usage taskflow(const Options& options, Stage stage, std::uint64_t items) {
  struct alignas(64) Slot {
    std::uint64_t value;
  };
  std::uint64_t sum = 0;
  const Usage usage = on_both_cores(options, [&] {
    std::array<Slot, tokens> slots{};
    const auto pipe = [](auto function) {
      return tf::Pipe{tf::PipeType::SERIAL, std::move(function)};
    };
    const auto first = [&](tf::Pipeflow& flow) {
      if (flow.token() == items)
        flow.stop();
      else
        slots[flow.line()].value = stage(flow.token());
    };
    const auto middle = [&](tf::Pipeflow& flow) {
      slots[flow.line()].value = stage(slots[flow.line()].value);
    };
    const auto last = [&](tf::Pipeflow& flow) { sum += stage(slots[flow.line()].value); };
    tf::Pipeline pipeline(tokens, pipe(first), pipe(middle), pipe(middle), pipe(last));
    tf::Taskflow graph;
    graph.composed_of(pipeline);
    tf::Executor executor(2);
    executor.run(graph).wait();
  });
  check_sum(sum, items, "Taskflow");
  return usage;
}
#endif

Column column(const Options& options, const std::string& name, double seconds_a_stage) {
  const Stage stage{seconds_a_stage == 0 ? 0 : steps_for(seconds_a_stage)};
  const auto entrant = [&](std::string who, Role role, auto run) -> Entrant {
    return {std::move(who), role, {{"", [&options, stage, run](std::uint64_t items) {
                                      return run(options, stage, items);
                                    }}}};
  };
  return {
      name,
      {entrant("one thread, no queue", Role::baseline, one_thread),
       entrant("run_pipeline, capacity 16", Role::ours, headrace_pipeline<16, false>),
       entrant("run_pipeline, capacity 64", Role::ours, headrace_pipeline<64, false>),
       entrant("run_pipeline, capacity 1024", Role::ours, headrace_pipeline<1024, false>),
       entrant("run_pipeline, 16, two stages a core", Role::ours, headrace_pipeline<16, true>),
       entrant("run_pipeline, 64, two stages a core", Role::ours, headrace_pipeline<64, true>),
       entrant("run_pipeline, 1024, two stages a core", Role::ours, headrace_pipeline<1024, true>),
       entrant("tbb::parallel_pipeline, 16 tokens", Role::rival, one_tbb),
#ifdef HEADRACE_BENCH_TASKFLOW
       entrant("Taskflow, 16 lines", Role::rival, taskflow),
#endif
       entrant("mutex queue of 16", Role::rival, thread_per_stage<MutexQueue<std::uint64_t, 16>>)}};
}

void run(const Options& options) {
  print_heading("Pipelines of four serial stages", options);
  measure_and_print(
      {.title = "Per item",
       .path = "pipeline",
       .unit = Unit::nanoseconds,
       .show_usage = true,
       .ratio_to_each_rival = true,
       .baseline_cores = 2,
       .columns = {column(options, "+1 only", 0), column(options, "1 us a stage", 1e-6),
                   column(options, "10 us a stage", 10e-6)}},
      options);
}

}  // namespace
}  // namespace headrace::bench

int main(int argc, char** argv) {
  return headrace::bench::run_main("bench_channel_pipeline", [&] {
    headrace::bench::run(headrace::bench::parse_options(
        argc, argv, "A pipeline of four serial stages on two cores, beside other runtimes."));
  });
}
