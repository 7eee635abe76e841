// The double buffer in front of a pipeline, of any depth: batches are produced ahead by background
// threads, and the position of a batch becomes committable only when the step that used it completed.
// Layer: flow.
//
//   current             the batch being trained on
//   reserve             the batches ready behind it (depth - 1 of them once primed), cleared at exhaustion
//   exhausted           no batch follows current
//   offsets_to_commit   the position of the last COMPLETED batch: what a checkpoint may store
//   next()              completes current and moves on
//
// Two textbook bugs, each a test: a reserve that is never cleared serves the last batch for ever; offsets
// read from the producer instead of the completed batch lose `queue + hand + future` batches on resume.
#pragma once

#include "headrace/channel.h"
#include "headrace/position.h"

namespace headrace {

template <typename Batch>
class Prefetch;  // defined in prefetch-inl.h

}  // namespace headrace
