#include "train/dflash_session.h"

#include <algorithm>

#include "headrace/error.h"
#include "headrace/sha256.h"
#include "train/drafter_files.h"

namespace headrace {
namespace {

// The data must be what the checkpoint was trained on; with --follow, new files may stand behind
// them.
Manifest resumed_manifest(const DflashOptions& options, const CheckpointFiles& checkpoint,
                          const Manifest& now) {
  const Manifest old = checkpoint.state.at("manifest").get<Manifest>();
  check_unchanged(old, now);
  return options.follow ? append(old, now) : old;
}

}  // namespace

DflashSession open_session(const DflashOptions& given) {
  DflashOptions options = given;
  std::optional<CheckpointFiles> resumed;
  if (!options.resume.empty()) {
    resumed = open_checkpoint(options.resume, [](const std::string& warning) {
      fmt::print(stderr, "headrace: {}\n", warning);
    });
    const auto stored = resumed->state.find("options");
    if (stored == resumed->state.end())
      fail(ErrorCode::bad_input, "{}/state.json: options is missing", resumed->folder);
    recall(options, *stored, resumed->folder);
  }
  validate(options);

  const std::string path = find_model(options.target);
  GgufFile file = GgufFile::open(path);
  Tokenizer tokenizer = Tokenizer::from(file);
  DrafterConfig drafter{.target = llama_shape(file),
                        .layers = static_cast<std::int64_t>(options.layers),
                        .block = static_cast<std::int64_t>(options.block),
                        .mask_token = tokenizer.mask_token()};
  if (static_cast<std::int64_t>(options.length) > drafter.target.context)
    fail(ErrorCode::bad_input, "--length {} exceeds the target's context of {}", options.length,
         drafter.target.context);
  if (drafter.target.layers < 4 ||
      static_cast<std::int64_t>(options.taps) > drafter.target.layers - 3)
    fail(ErrorCode::bad_input, "--taps {}: a target of {} layers has at most {}", options.taps,
         drafter.target.layers, std::max<std::int64_t>(0, drafter.target.layers - 3));
  if (options.layers > static_cast<std::uint64_t>(drafter.target.layers))
    fail(ErrorCode::bad_input, "--layers {}: the target has {}", options.layers,
         drafter.target.layers);
  drafter.taps = tap_layers(drafter.target.layers, static_cast<std::int64_t>(options.taps));

  const std::string target_sha256 = sha256_file(path);
  Manifest manifest = scan(options.data, options.verify_data);
  if (resumed) {
    check_drafter_files(*resumed, drafter, target_sha256);
    manifest = resumed_manifest(options, *resumed, manifest);
  }
  return {options,
          path,
          target_sha256,
          std::move(file),
          std::move(tokenizer),
          drafter,
          std::move(manifest),
          std::move(resumed)};
}

TextOptions DflashSession::text_options() const {
  return {.rows = options.batch,
          .length = options.length,
          .anchors = options.anchors,
          .seed = options.seed,
          .epochs = options.steps > 0 || options.seconds > 0 ? 0u : 1u,
          .pad_token = tokenizer.end_of_text()};
}

Position DflashSession::start_position() const {
  return resumed ? resumed->state.at("position").get<Position>() : Position{};
}

Encode DflashSession::encode() const {
  return [tokenizer = tokenizer](std::string_view bytes) { return tokenizer.encode(bytes); };
}

}  // namespace headrace
