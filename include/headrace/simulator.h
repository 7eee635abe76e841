// Predicts a plan under a schedule: discrete events over Progress, so that capacities, resources and
// edges are those of the runtime. Layer: model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headrace/plan.h"
#include "headrace/progress.h"

namespace headrace {

struct SimulatedSpan {
  std::size_t stage = 0, resource = 0;  // indices into the plan; one span for each device held
  std::uint64_t replica = 0, sequence = 0, step = 0;
  double start = 0, end = 0;            // seconds
};
struct SimulatedWait {
  std::size_t resource = 0;
  double start = 0, end = 0;
  WaitCause cause = WaitCause::starved;
};

struct Simulation {
  std::string schedule;
  double step_seconds = 0;          // median interval between completions of the last stage, warm-up left out
  double interval_low = 0, interval_high = 0;  // 5th to 95th percentile of those intervals
  double bound_seconds = 0;         // see bound()
  double total_seconds = 0;
  std::vector<std::string> critical_path;  // names of the stages that a steady step waits for, in order
  std::vector<SimulatedSpan> spans;
  std::vector<SimulatedWait> waits;
};

struct SimulateOptions {
  std::uint64_t steps = 50;
  std::uint64_t seed = 1;       // costs given as distributions are drawn with it
  bool keep_spans = true;
};

// Error(bad_input) where a stage has no cost; Error(hang) with the wait-for graph where it deadlocks.
Simulation simulate(const Plan& plan, const ScheduleText& schedule, const SimulateOptions& options = {});

// Seconds per step that no schedule of this plan can beat: the largest of each device's own work per
// step (costs times the slow-down of the shared resources it uses at saturation are NOT applied: the
// caller passes contended costs where it wants them), each lock's, and the longest dependency cycle.
double bound(const Plan& plan);

}  // namespace headrace
