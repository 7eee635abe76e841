#include "cli/train/commands.h"
#include "train/generate_options.h"

namespace headrace {

Action add_model(CLI::App& parent) {
  auto options = std::make_shared<ModelOptions>();
  ModelOptions& o = *options;
  CLI::App& app =
      *parent.add_subcommand("model", "Show a model file: sizes, tokenizer, log-probabilities");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("MODEL", o.model, "GGUF model: a path or a name")->required();
  CLI::Option* tokenize = app.add_option("--tokenize", o.tokenize, "Print the token ids of a text");
  CLI::Option* logits =
      app.add_option("--logits", o.logits, "Print each token's log-probability and the five best");
  app.add_flag("--json", o.json, "Print one JSON object");
  return [options, tokenize, logits] {
    options->has_tokenize = tokenize->count() > 0;
    options->has_logits = logits->count() > 0;
    return show_model(*options);
  };
}

}  // namespace headrace
