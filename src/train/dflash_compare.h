// `--compare`: every schedule, and another placement, from one seed for the same steps.
#pragma once

#include <memory>
#include <vector>

#include "train/dflash_probe.h"
#include "train/dflash_run.h"

namespace headrace {

struct ComparedRun {
  DflashRun run;
  double predicted_seconds =
      0;  // a step, from the probed costs; the placement with all cores is not predicted: 0
};

struct Comparison {
  StageCosts costs;
  std::vector<ComparedRun> runs;  // lockstep, overlapped, async, lockstep_allcores
  bool same_weights = false;      // of the three schedules, bit for bit
  double placement_distance = 0;  // largest difference of a weight between the placements
  double speedup() const;         // lockstep over async, measured
};

// options.steps steps each; their traces go to `out`, which exists. Error(cancelled) after Ctrl-C.
Comparison compare_schedules(const DflashSession& session, std::shared_ptr<const Target> target,
                             const std::string& out);

// The table of a comparison, within 100 columns.
std::string comparison_table(const Comparison& comparison);

}  // namespace headrace
