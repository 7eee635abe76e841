// A schedule is nothing but extra ordering edges on a plan. Layer: plan.
//
//   lockstep    the stages of a step in topological levels, a barrier after each level
//   phases      the levels given by hand; a stage left out is an error that names it
//   overlapped  the double buffer at the scale of steps: in round r a stage of depth d works on
//               step r - d (d: its distance from the sources, see depths), and all join once a
//               round
//   async       nothing but data, `after`, resources and capacities orders the work
//   edges       the given edges and nothing else
//
// Stages on `host` resources are left out of every schedule: their work is prefetched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headrace/plan.h"

namespace headrace {

// Step n of `to` starts only when step n - lag of `from` has completed (all its firings), for n >=
// lag. Stages are indices into Plan::stages.
struct Edge {
  std::size_t from = 0, to = 0;
  std::uint64_t lag = 0;
  bool operator==(const Edge&) const = default;
};

// Topological level of each stage along channels and same-step `after`, host stages not counted.
std::vector<std::size_t> levels(const Plan& plan);
// Distance of each stage from the sources where only channels count: how many rounds behind them it
// works when overlapped. A stage that comes `after` others in a step works in the same round as
// they.
std::vector<std::size_t> depths(const Plan& plan);

// The edges of a schedule. Error(bad_input) for an unknown name or stage, a stage missing from
// phases or named twice, a host stage in phases or edges, an edge that would wait for a later step
// (negative lag), edges that form a cycle.
std::vector<Edge> schedule_edges(const Plan& plan, const ScheduleText& schedule);

// Goes through the first steps of a plan under these edges without a clock, and refuses those that
// get stuck: Error(bad_input) with the wait-for graph, and where capacities are the reason, with the
// smallest ones that let a step through. Under lock-step a channel has to hold all the items of a
// step, since nothing takes them before the barrier.
void check_runs(const Plan& plan, const std::vector<Edge>& edges);

// lockstep, overlapped and async, by name, for "all".
const std::vector<std::string>& standard_schedules();

}  // namespace headrace
