// What a training run will need at most, before it starts. Bytes.
#pragma once

#include <cstdint>

#include "train/dflash_session.h"

namespace headrace {

struct MemoryPlan {
  std::uint64_t runtime = 0;   // libtorch, its thread pools, tokenizer, data, trace
  std::uint64_t drafters = 0;  // master weights, optimizer state, gradients, working copies
  // While training.
  std::uint64_t target =
      0;  // weights in the precision of training, and a forward pass's buffers a target
  std::uint64_t features = 0;     // in channels and in the hands of stages
  std::uint64_t activations = 0;  // of the drafters' forward and backward passes
  // While evaluating, when the training target is gone.
  std::uint64_t evaluation =
      0;  // the target in fp32 and in its file, caches, features of the prompts

  std::uint64_t total() const;  // of the phase that needs more
};

MemoryPlan planned_memory(const DflashSession& session);

// Error(bad_input) where options.memory is given and does not suffice: says what each part needs
// and what to lower.
void check_memory(const DflashSession& session);

}  // namespace headrace
