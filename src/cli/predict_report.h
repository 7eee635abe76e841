// The HTML report of `headrace predict`. Layer: cli.
#pragma once

#include <vector>

#include "headrace/plan.h"
#include "headrace/report.h"
#include "headrace/simulator.h"

namespace headrace {

// The schedules side by side, and the timeline of the first steps under each. `simulations` hold
// spans.
Report predict_report(const Plan& plan, const std::vector<Simulation>& simulations);

}  // namespace headrace
