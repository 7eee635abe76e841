// Checkpoints: OUT/step-N/ with config.json, model.safetensors, optimizer.safetensors, state.json
// and MANIFEST (sha256 of each, and of the target). Written under a temporary name, flushed,
// renamed; the last two are kept and OUT/latest names the newest. No libtorch here.
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

// Writes OUT/step-N. Error(io) where the disk refuses; nothing half-written is left under a final
// name, and the earlier checkpoints stay.
void write_checkpoint(const std::string& out, const CheckpointContent& content);

struct CheckpointFiles {
  std::string folder;  // OUT/step-N
  std::uint64_t step = 0;
  nlohmann::json config, state;
  SafeTensorsFile model, optimizer;
  std::string target_sha256;
};

// `path`: OUT, then the newest step whose checksums hold (each one skipped is named through
// `warn`), or a step's folder, refused with Error(bad_input) where it is damaged.
CheckpointFiles open_checkpoint(const std::string& path,
                                const std::function<void(const std::string&)>& warn);

}  // namespace headrace
