// Checkpoints: OUT/step-N/ with config.json, model.safetensors, optimizer.safetensors, state.json
// and MANIFEST (sha256 of each, of the target, and of itself). Written under a temporary name,
// flushed, renamed, the folder flushed, and only then named by OUT/latest; the last two are kept,
// and those of higher numbers, which a run that goes on from an earlier step leaves behind, are
// removed. Killed or cut from power at any instant, open_checkpoint() gives the old one or the new
// one, whole. No libtorch here.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headrace/safetensors.h"

namespace headrace {

struct CheckpointContent {
  std::uint64_t step = 0;
  nlohmann::json config, state;
  std::vector<SafeTensor> model, optimizer;  // data is borrowed
  std::string target_sha256;
};

// Writes OUT/step-N and removes what killed runs left in OUT: one run at a time. Error(io) where
// the disk refuses; nothing half-written is left, and the earlier checkpoints stay.
void write_checkpoint(const std::string& out, const CheckpointContent& content);

// Removes what killed runs left in OUT: unfinished files and folders. One run at a time.
void remove_leftovers(const std::string& out);

// OUT is empty, or the folder of a run or comparison that was stopped before it left anything.
bool holds_no_checkpoint_yet(const std::string& out);

// The name of the step in OUT that is opened first, whole or not; "" where there is none.
std::string newest_step(const std::string& out);

struct CheckpointFiles {
  std::string folder;  // OUT/step-N
  std::uint64_t step = 0;
  nlohmann::json config, state;
  SafeTensorsFile model, optimizer;
  std::string target_sha256;
  std::string newest;  // newest_step() of OUT then; "" where a step was given
};

// `path`: OUT, then the newest step whose checksums hold (each one skipped is named through
// `warn`), or a step's folder, refused with Error(bad_input) where it is damaged.
CheckpointFiles open_checkpoint(const std::string& path,
                                const std::function<void(const std::string&)>& warn);

}  // namespace headrace
