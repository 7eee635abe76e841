// What every run of one command shares: the model file, its tokenizer, the data, an earlier
// checkpoint. No libtorch here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "headrace/gguf.h"
#include "headrace/text_source.h"
#include "headrace/tokenizer.h"
#include "nn/drafter_config.h"
#include "nn/precision.h"
#include "train/checkpoint.h"
#include "train/dflash_options.h"

namespace headrace {

struct DflashSession {
  DflashOptions options;
  std::string target_path, target_sha256;
  GgufFile file;
  Tokenizer tokenizer;
  DrafterConfig drafter;                  // sizes, taps, mask token
  Precision precision = Precision::fp32;  // of the target's features and the drafter's arithmetic
  Manifest manifest;
  std::vector<std::int64_t> frequent;  // tokens in the softmax of training, ascending; empty: all
  std::optional<CheckpointFiles> resumed;

  TextOptions text_options() const;
  // Of the resumed checkpoint, or the start of the data.
  Position start_position() const;
  Encode encode() const;
  std::uint64_t feature_bytes() const;  // of one batch's features
};

// Opens everything the options name. Error(bad_input) for a model, data or checkpoint that cannot
// be used or that do not belong together: a checkpoint of another target or of other sizes, data
// that changed.
DflashSession open_session(const DflashOptions& options);

}  // namespace headrace
