// One training run with its folder OUT: the log, checkpoints, plan, trace, evaluation and result.
#pragma once

#include <memory>
#include <string>

#include "train/dflash_trainer.h"

namespace headrace {

// Trains as session.options say and prints the result; returns the exit status. OUT is locked from
// before the first write to it until the run ends. Error(resource) where another run holds it, or
// wrote to it after the session was opened. After an error of a stage the last completed step is
// saved first.
int train_into(const std::string& out, const DflashSession& session,
               std::shared_ptr<const Target> target);

}  // namespace headrace
