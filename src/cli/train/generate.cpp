#include "cli/train/commands.h"
#include "train/generate_options.h"

namespace headrace {

Action add_generate(CLI::App& parent) {
  auto options = std::make_shared<GenerateOptions>();
  GenerateOptions& o = *options;
  CLI::App& app = *parent.add_subcommand(
      "generate", "Generate text, speculatively and losslessly where a drafter is given");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--target", o.target,
                 "GGUF model: a path, or a name looked up in HEADRACE_MODELS and .venv")
      ->required();
  app.add_option("--drafter", o.drafter, "OUT of a training run, or one of its steps");
  CLI::Option* prompt = app.add_option("--prompt", o.prompt,
                                       "The user's message; \"-\" reads it from standard input");
  CLI::Option* evaluation = app.add_flag("--evaluation", o.evaluation,
                                         "Decode the 64 evaluation prompts, 48 tokens each");
  evaluation->excludes(prompt);
  app.add_flag("--raw", o.raw, "Continue the prompt as it is, without the model's chat template");
  app.add_option("--max-tokens", o.max_tokens, "New tokens at most")->capture_default_str();
  app.add_option("--temperature", o.temperature, "0: greedy")->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of sampling")->capture_default_str();
  app.add_option("--threads", o.threads, "Compute threads (all cores)");
  app.add_flag("--verify", o.verify, "Compare with plain greedy decoding, one token at a time");
  app.add_flag("--json", o.json, "Print one JSON object at the end");
  return [options] { return generate(*options); };
}

}  // namespace headrace
