// One run of a trainer under a plan: executes, traces, accounts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "headrace/accounting.h"
#include "headrace/executor.h"
#include "headrace/record.h"
#include "headrace/replan.h"
#include "train/dflash_plan.h"
#include "train/dflash_trainer.h"

namespace headrace {

struct DflashRun {
  std::string name;  // the schedule, or the placement
  Outcome outcome = Outcome::finished;
  std::uint64_t steps = 0;        // of this run
  double seconds = 0;             // of the steps: ending the trace's file is not in it
  std::vector<double> intervals;  // seconds between two completed steps
  double step_seconds_p50 = 0;
  double bound_seconds = 0;  // of the plan with the costs measured in this run
  std::uint64_t tokens = 0;
  double loss_first = 0, loss_last = 0;  // of the first step; mean of the last ten
  std::string weights_sha256;
  TraceHeader header;
  std::vector<Span> spans;
  Accounting accounting;  // of all spans in the trace's file, else of those kept in memory
  Plan plan;              // as it was at the end, with measured costs
  std::optional<ReplanOutcome> replan;  // where it was asked for

  double tokens_per_second() const {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  }
};

struct RunOptions {
  std::string name;
  std::uint64_t until = 0;  // the trainer's step to end after; 0: to the end of the data
  std::string trace_path;   // the trace grows there while the run goes on; "": nowhere
  std::size_t trace_capacity = RecorderOptions{}.capacity;  // spans a lane that memory keeps
  ReplanOptions replan;
};

// `on_step` is called after each completed step with the trainer consistent; it returns false to
// stop. Ctrl-C stops. An error of a stage is thrown after everything has stopped. A trace that
// cannot be created, written or ended is said on stderr and changes nothing else.
DflashRun run_plan(const PlacedPlan& placed, DflashTrainer& trainer, const RunOptions& options,
                   const std::function<bool(const StepLog&)>& on_step);

// Turns Ctrl-C into a stop for as long as it lives.
std::jthread stop_on_interrupt(Executor& executor);

// The plan with each stage's cost replaced by its span's durations (the first step left out where
// there are others).
Plan with_measured_costs(Plan plan, const TraceHeader& header, const std::vector<Span>& spans);

// For compute outside a plan.
void use_all_cores();

double median(std::vector<double> values);  // 0 where empty

}  // namespace headrace
