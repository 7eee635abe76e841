// The steady part of a run: without the start, while channels fill, and without the end, when
// devices have run out of work. Layer: model.
#pragma once

#include <vector>

#include "headrace/simulator.h"

namespace headrace {

// Fills step_seconds and interval from the times at which steps were completed. `first_done`: how
// many were when the first device ran out of work.
void summarise(const std::vector<double>& step_ends, std::size_t first_done,
               Simulation& simulation);

}  // namespace headrace
