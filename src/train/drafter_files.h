// A drafter on disk under the reference's names (z-lab/dflash). Training and generation use it. No
// libtorch here.
#pragma once

#include <string>

#include "nn/drafter_config.h"
#include "train/checkpoint.h"

namespace headrace {

// config.json of a drafter: sizes, block_size, num_target_layers, dflash_config {target_layer_ids,
// mask_token_id}.
nlohmann::json drafter_config_json(const DrafterConfig& config);
// The reverse. Error(bad_input) names file and key.
DrafterConfig drafter_config(const CheckpointFiles& checkpoint);

// Error(bad_input) where the checkpoint was trained beside another target or has other sizes than
// `expected`, naming what differs.
void check_drafter_files(const CheckpointFiles& checkpoint, const DrafterConfig& expected,
                         const std::string& target_sha256);

}  // namespace headrace
