// Plans with more workers and deeper channels. Layer: flow.
#pragma once

#include "headrace/replan.h"

namespace headrace {

// The resource of a worker that re-planning adds: "load.1" is the second of stage load.
std::string worker_name(const std::string& stage, std::uint64_t replica);

// The plan with a host resource for every worker that it may get. Error(bad_input) for a stage that
// cannot have more workers, or a name that is taken.
Plan with_spare_workers(Plan plan, const ReplanOptions& options);

}  // namespace headrace
