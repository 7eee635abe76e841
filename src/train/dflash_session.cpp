#include "train/dflash_session.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>

#include "headrace/error.h"
#include "headrace/sha256.h"
#include "train/dflash_plan.h"
#include "train/drafter_files.h"
#include "train/interrupt.h"

namespace headrace {
namespace {

// The data must be what the checkpoint was trained on; with --follow, new files may stand behind
// them.
Manifest resumed_manifest(const DflashOptions& options, const CheckpointFiles& checkpoint,
                          const Manifest& now) {
  const Manifest old = checkpoint.state.at("manifest").get<Manifest>();
  // Where the files are now, in the order they had then.
  Manifest manifest = append(old, now);
  if (!options.follow) manifest.files.resize(old.files.size());
  return manifest;
}

// Tokens counted for the most frequent ones.
constexpr std::uint64_t kCountedTokens = 3'000'000;

// The most frequent tokens of the beginning of the data, ascending. A checkpoint keeps them: files may be added.
std::vector<std::int64_t> frequent_tokens(const DflashSession& session) {
  if (session.options.head_tokens == 0) return {};
  if (session.resumed) {
    const SafeTensor& stored = session.resumed->optimizer.tensor("frequent_tokens");
    if (stored.dtype != "I64")
      fail(ErrorCode::bad_input, "optimizer.safetensors: frequent_tokens is {}, expected I64",
           stored.dtype);
    const auto* ids = reinterpret_cast<const std::int64_t*>(stored.data);
    return {ids, ids + stored.bytes / sizeof(std::int64_t)};
  }
  TextOptions options = session.text_options();
  options.epochs = 1;
  TextSource source(session.manifest, options, session.encode());
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(session.drafter.target.vocab));
  TokenBatch batch;
  for (std::uint64_t tokens = 0; tokens < kCountedTokens && source.next(batch);
       tokens += batch.token_count()) {
    if (interrupted())
      fail(ErrorCode::cancelled, "stopped while counting tokens; nothing was written");
    for (std::uint64_t row = 0; row < batch.rows; ++row)
      for (std::int32_t i = 0; i < batch.row_lengths[row]; ++i)
        ++counts.at(static_cast<std::size_t>(
            batch.tokens[row * batch.length + static_cast<std::uint64_t>(i)]));
  }
  std::vector<std::int64_t> ids(counts.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, std::ranges::greater(),
                           [&](std::int64_t id) { return counts[static_cast<std::size_t>(id)]; });
  ids.resize(std::min<std::size_t>(ids.size(), session.options.head_tokens));
  std::ranges::sort(ids);
  return ids;
}

// The precision that a run was begun in decides its weights.
Precision precision_of(const std::optional<CheckpointFiles>& resumed) {
  const Precision native = native_precision();
  if (!resumed) return native;
  const std::string stored = resumed->state.value("precision", std::string());
  if (stored != to_string(native))
    fail(ErrorCode::bad_input,
         "{}: was trained in {}, but this CPU trains in {}: go on where it was begun",
         resumed->folder, stored, to_string(native));
  return native;
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
  if (!options.plan_file.empty()) {
    const Plan plan = dflash_plan_from(options.plan_file).plan;
    options.targets = plan.stage("target").replicas;
    options.drafters = plan.stage("drafter").replicas;
  }
  validate(options);

  const std::string path = std::filesystem::absolute(find_model(options.target)).string();
  options.target = path;
  for (std::string& data : options.data) data = std::filesystem::absolute(data).string();
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
  DflashSession session{.options = options,
                        .target_path = path,
                        .target_sha256 = target_sha256,
                        .file = std::move(file),
                        .tokenizer = std::move(tokenizer),
                        .drafter = drafter,
                        .precision = precision_of(resumed),
                        .manifest = std::move(manifest),
                        .resumed = std::move(resumed)};
  session.frequent = frequent_tokens(session);
  return session;
}

TextOptions DflashSession::text_options() const {
  return {.rows = options.batch,
          .length = options.length,
          .anchors = options.anchors,
          .seed = options.seed,
          .epochs = options.steps > 0 || options.seconds > 0 ? 0u : 1u,
          .pad_token = tokenizer.end_of_text(),
          .workers = options.workers};
}

Position DflashSession::start_position() const {
  return resumed ? resumed->state.at("position").get<Position>() : Position{};
}

Encode DflashSession::encode() const {
  return [tokenizer = tokenizer](std::string_view bytes) { return tokenizer.encode(bytes); };
}

std::uint64_t DflashSession::feature_bytes() const {
  const std::uint64_t element = precision == Precision::bf16 ? 2 : 4;
  return options.batch * options.length * options.taps *
         static_cast<std::uint64_t>(drafter.target.hidden) * element;
}

}  // namespace headrace
