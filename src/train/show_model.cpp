// headrace model.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "headrace/error.h"
#include "headrace/gguf.h"
#include "headrace/thread.h"
#include "headrace/tokenizer.h"
#include "nn/decode.h"
#include "nn/llama_shape.h"
#include "nn/threads.h"
#include "train/generate_options.h"

namespace headrace {
namespace {

constexpr std::size_t kBest = 10;

// [{token, logprob, top: [[id, logprob]...]}] of each token after the first.
nlohmann::json log_probabilities(const GgufFile& file, const std::vector<std::int32_t>& ids) {
  set_compute_threads(static_cast<int>(allowed_cores().size()));
  nlohmann::json rows = nlohmann::json::array();
  for (const TokenScore& score : Decoder(file).score(ids, kBest))
    rows.push_back(
        {{"token", score.token}, {"logprob", score.log_probability}, {"top", score.best}});
  return rows;
}

// A token's text on one line.
std::string printable(const Tokenizer& tokenizer, std::int32_t id) {
  return nlohmann::json(std::string(tokenizer.bytes_of(id)))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void print_text(const nlohmann::json& shown, const Tokenizer& tokenizer) {
  for (const auto& [key, value] : shown.items()) {
    if (key == "logits") {
      for (const auto& row : value) {
        fmt::print("{:>20} {:9.4f}  ", printable(tokenizer, row["token"]),
                   row["logprob"].get<double>());
        for (std::size_t k = 0; k < std::min<std::size_t>(5, row["top"].size()); ++k)
          fmt::print(" {} {:.2f}", printable(tokenizer, row["top"][k][0]),
                     row["top"][k][1].get<double>());
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
    shown = {{"path", path},
             {"architecture", file.text("general.architecture")},
             {"parameters", parameters},
             {"bytes", bytes},
             {"layers", shape.layers},
             {"hidden", shape.hidden},
             {"ffn", shape.ffn},
             {"heads", shape.heads},
             {"kv_heads", shape.kv_heads},
             {"head_dim", shape.head_dim},
             {"vocabulary", shape.vocab},
             {"context", shape.context},
             {"rope_base", shape.rope_base},
             {"mask_token", tokenizer.mask_token()},
             {"chat_template", tokenizer.has_chat_template()}};
  }
  if (options.has_tokenize) shown["ids"] = tokenizer.encode(options.tokenize);
  if (options.has_logits)
    shown["logits"] = log_probabilities(file, tokenizer.encode(options.logits));
  if (options.json)
    fmt::print("{}\n", shown.dump());
  else
    print_text(shown, tokenizer);
  return 0;
}

}  // namespace headrace
