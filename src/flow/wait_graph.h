// The wait-for graph in words, and the check that a plan can run at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headrace/plan.h"
#include "headrace/progress.h"

namespace headrace {

// "target.0" where the stage has replicas, else "target".
std::string firing_name(const Plan& plan, const Firing& firing);

// What a device waits for that holds no firing: "drafter.1 waits to receive from features: 0/4
// items".
std::string wait_words(const Plan& plan, const Progress& progress, std::size_t resource);
// The same of a firing that cannot deliver its outputs.
std::string send_words(const Plan& plan, const Progress& progress, const Firing& firing,
                       const std::vector<std::uint64_t>& bytes);

// Goes through the first steps without a clock. Error(bad_input) with the wait-for graph where they
// get stuck: capacities that cannot admit a step under these edges, or edges that wait for one
// another.
void check_runs(const Plan& plan, const std::vector<Edge>& edges);

}  // namespace headrace
