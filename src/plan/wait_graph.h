// The wait-for graph in words. Layer: plan.
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

}  // namespace headrace
