// The plan of a drafter's training, and where its devices live on this machine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "headrace/plan.h"
#include "train/dflash_options.h"

namespace headrace {

// A device is a set of cores; its stages run with as many compute threads.
struct Placement {
  std::map<std::string, std::vector<int>> cores;  // resource -> cores
  std::size_t threads(const std::string& resource) const;
};

struct PlacedPlan {
  Plan plan;
  Placement placement;
};

// Stages: load (host) -> batches -> target -> features -> drafter -> sync. A step is one batch a
// drafter; the next step's drafters wait for this step's sync, so no gradient is delayed. Device k
// has core k modulo the number of cores.
PlacedPlan dflash_plan(const DflashOptions& options, std::uint64_t feature_bytes);

// Another placement of the same work: one device with all the cores, given to each stage in turn.
PlacedPlan dflash_plan_all_cores(const DflashOptions& options, std::uint64_t feature_bytes);

// The plan of a file: the same four stages, wired in the same way; devices, replicas, capacities and schedule
// as written. Error(bad_input) names the stage and what differs.
PlacedPlan dflash_plan_from(const std::string& path);

// What a run is asked to follow: options.plan_file, else dflash_plan().
PlacedPlan wanted_plan(const DflashOptions& options, std::uint64_t feature_bytes);

}  // namespace headrace
