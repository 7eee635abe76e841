// What each stage costs on this machine, alone and while the others run: two short measurements
// without a schedule.
#pragma once

#include <map>
#include <string>

#include "headrace/plan.h"
#include "train/dflash_trainer.h"

namespace headrace {

struct StageCosts {
  std::map<std::string, double> alone;  // stage -> seconds a firing, median, nothing else running
  // How many times as long the target and a drafter take while the other runs on the other core:
  // mean of the two.
  double slowdown = 1;
};

// Works on a trainer of its own. Takes about ten steps' time. Error(cancelled) after Ctrl-C.
StageCosts probe_costs(const DflashSession& session, std::shared_ptr<const Target> target);

// The plan with these costs, and the slow-down as a shared resource of the stages that compute.
Plan with_probed_costs(Plan plan, const StageCosts& costs);

}  // namespace headrace
