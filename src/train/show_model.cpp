// headrace model.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "headrace/error.h"
#include "headrace/gguf.h"
#include "headrace/thread.h"
#include "headrace/tokenizer.h"
#include "nn/target.h"
#include "nn/threads.h"
#include "train/generate_options.h"

namespace headrace {
namespace {

constexpr std::int64_t kBest = 10;

// For each token after the first: its log-probability and the best ones. [{token, logprob, top: [[id, logprob]...]}]
nlohmann::json log_probabilities(const GgufFile& file, const std::vector<std::int32_t>& ids) {
  if (ids.size() < 2) fail(ErrorCode::bad_input, "--logits needs a text of at least two tokens");
  torch::NoGradGuard no_grad;
  set_compute_threads(static_cast<int>(allowed_cores().size()));
  const Target target = Target::load(file, Precision::fp32);
  const auto size = static_cast<std::int64_t>(ids.size());
  if (size > target.shape().context) fail(ErrorCode::bad_input, "--logits: {} tokens exceed the model's context of {}", size, target.shape().context);
  KvCache cache = target.make_cache(1, size);
  const torch::Tensor tokens = torch::from_blob(const_cast<std::int32_t*>(ids.data()), {1, size}, torch::kInt32).to(torch::kInt64);
  const torch::Tensor scores = torch::log_softmax(target.logits(target.forward(tokens, cache, {}).hidden[0]), -1);
  const auto [values, best] = scores.topk(std::min(kBest, scores.size(-1)), -1);
  nlohmann::json rows = nlohmann::json::array();
  for (std::int64_t i = 0; i + 1 < size; ++i) {
    nlohmann::json top = nlohmann::json::array();
    for (std::int64_t k = 0; k < best.size(1); ++k) top.push_back({best[i][k].item<std::int64_t>(), values[i][k].item<float>()});
    rows.push_back({{"token", ids[i + 1]}, {"logprob", scores[i][ids[i + 1]].item<float>()}, {"top", top}});
  }
  return rows;
}

// A token's text on one line.
std::string printable(const Tokenizer& tokenizer, std::int32_t id) {
  return nlohmann::json(std::string(tokenizer.bytes_of(id))).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void print_text(const nlohmann::json& shown, const Tokenizer& tokenizer) {
  for (const auto& [key, value] : shown.items()) {
    if (key == "logits") {
      for (const auto& row : value) {
        fmt::print("{:>20} {:9.4f}  ", printable(tokenizer, row["token"]), row["logprob"].get<double>());
        for (std::size_t k = 0; k < std::min<std::size_t>(5, row["top"].size()); ++k)
          fmt::print(" {} {:.2f}", printable(tokenizer, row["top"][k][0]), row["top"][k][1].get<double>());
        fmt::print("\n");
      }
    } else {
      fmt::print("{:18} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

}  // namespace

int show_model(const ModelOptions& options) {
  const std::string path = find_model(options.model);
  const GgufFile file = GgufFile::open(path);
  const Tokenizer tokenizer = Tokenizer::from(file);
  nlohmann::ordered_json shown;
  if (!options.has_tokenize && !options.has_logits) {
    const LlamaShape shape = llama_shape(file);
    std::uint64_t parameters = 0, bytes = 0;
    for (const GgufTensor& tensor : file.tensors()) {
      parameters += tensor.elements();
      bytes += tensor.bytes;
    }
    shown = {{"path", path}, {"architecture", file.text("general.architecture")}, {"parameters", parameters}, {"bytes", bytes},
             {"layers", shape.layers}, {"hidden", shape.hidden}, {"ffn", shape.ffn}, {"heads", shape.heads}, {"kv_heads", shape.kv_heads},
             {"head_dim", shape.head_dim}, {"vocabulary", shape.vocab}, {"context", shape.context}, {"rope_base", shape.rope_base},
             {"mask_token", tokenizer.mask_token()}, {"chat_template", tokenizer.has_chat_template()}};
  }
  if (options.has_tokenize) shown["ids"] = tokenizer.encode(options.tokenize);
  if (options.has_logits) shown["logits"] = log_probabilities(file, tokenizer.encode(options.logits));
  if (options.json)
    fmt::print("{}\n", shown.dump());
  else
    print_text(shown, tokenizer);
  return 0;
}

}  // namespace headrace
