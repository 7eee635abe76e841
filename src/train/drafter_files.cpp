#include "train/drafter_files.h"

#include "headrace/error.h"

namespace headrace {

nlohmann::json drafter_config_json(const DrafterConfig& config) {
  const LlamaShape& shape = config.target;
  return {
      {"architectures", {"DFlashDraftModel"}},
      {"model_type", "qwen3"},
      {"hidden_size", shape.hidden},
      {"intermediate_size", shape.ffn},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", shape.heads},
      {"num_key_value_heads", shape.kv_heads},
      {"head_dim", shape.head_dim},
      {"vocab_size", shape.vocab},
      {"max_position_embeddings", shape.context},
      {"rope_theta", shape.rope_base},
      {"rms_norm_eps", shape.norm_eps},
      {"torch_dtype", "float32"},
      {"block_size", config.block},
      {"num_target_layers", shape.layers},
      {"dflash_config", {{"target_layer_ids", config.taps}, {"mask_token_id", config.mask_token}}}};
}

DrafterConfig drafter_config(const CheckpointFiles& checkpoint) {
  const nlohmann::json& json = checkpoint.config;
  try {
    DrafterConfig config;
    LlamaShape& shape = config.target;
    shape.hidden = json.at("hidden_size");
    shape.ffn = json.at("intermediate_size");
    config.layers = json.at("num_hidden_layers");
    shape.heads = json.at("num_attention_heads");
    shape.kv_heads = json.at("num_key_value_heads");
    shape.head_dim = json.at("head_dim");
    shape.vocab = json.at("vocab_size");
    shape.context = json.at("max_position_embeddings");
    shape.rope_base = json.at("rope_theta");
    shape.norm_eps = json.at("rms_norm_eps");
    config.block = json.at("block_size");
    shape.layers = json.at("num_target_layers");
    config.taps = json.at("dflash_config").at("target_layer_ids").get<std::vector<std::int64_t>>();
    config.mask_token = json.at("dflash_config").at("mask_token_id");
    return config;
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::bad_input, "{}/config.json: not a drafter's configuration ({})",
         checkpoint.folder, e.what());
  }
}

void check_drafter_files(const CheckpointFiles& checkpoint, const DrafterConfig& expected,
                         const std::string& target_sha256) {
  if (checkpoint.target_sha256 != target_sha256)
    fail(ErrorCode::bad_input,
         "{}: was trained beside another target (sha256 {:.12}..., this one is {:.12}...): give "
         "that model as --target",
         checkpoint.folder, checkpoint.target_sha256, target_sha256);
  const nlohmann::json now = drafter_config_json(expected);
  for (const auto& [key, value] : now.items()) {
    const auto then = checkpoint.config.find(key);
    if (then == checkpoint.config.end())
      fail(ErrorCode::bad_input, "{}/config.json: {} is missing", checkpoint.folder, key);
    if (*then != value)
      fail(ErrorCode::bad_input, "{}/config.json: {} is {}, but {} was asked for",
           checkpoint.folder, key, then->dump(), value.dump());
  }
}

}  // namespace headrace
