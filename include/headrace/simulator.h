// Predicts a plan under a schedule: discrete events over Progress, so that capacities, resources
// and edges are those of the runtime. Layer: model.
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
  double start = 0, end = 0;  // seconds
};
struct SimulatedWait {
  std::size_t resource = 0;
  double start = 0, end = 0;
  WaitCause cause = WaitCause::starved;
};

struct Simulation {
  std::string schedule;
  double step_seconds = 0;  // mean interval between completed steps in the steady part: from a
                            // fifth of the steps until a device runs out of work
  double interval_low = 0, interval_high = 0;  // 5th to 95th percentile of those intervals
  double bound_seconds = 0;                    // see bound()
  double total_seconds = 0;
  std::vector<std::string> critical_path;  // the stages that set the pace: each starts when the one
                                           // before has ended, the first when the last has
  std::vector<SimulatedSpan> spans;
  std::vector<SimulatedWait> waits;
};

struct SimulateOptions {
  std::uint64_t steps = 50;
  std::uint64_t seed = 1;  // costs given as distributions are drawn with it
  bool keep_spans = true;  // spans and waits; without them a million events take about a second
};

// Error(bad_input) where the plan is invalid, a stage has no cost or steps is 0; Error(hang) with
// the wait-for graph where it deadlocks.
Simulation simulate(const Plan& plan, const ScheduleText& schedule,
                    const SimulateOptions& options = {});

// Seconds per step that no schedule of this plan can beat: the largest of each device's own work
// per step, each lock's, and the longest dependency cycle through data, `after`, capacities and the
// stage's own previous firing. Mean costs without the slow-down of shared resources: a caller that
// wants contended costs passes them.
double bound(const Plan& plan);

}  // namespace headrace
