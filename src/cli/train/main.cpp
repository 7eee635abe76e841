// headrace-train: the commands that need libtorch. `headrace` starts it in its place.
#include <vector>

#include "cli/train/arguments.h"
#include "cli/train/commands.h"

namespace {

// The arguments as main() gets them, with --config expanded behind the words that name the command.
std::vector<std::string> expanded(int argc, char** argv) {
  using headrace::expand_config;
  std::vector<std::string> words{argv[0]}, rest;
  int i = 1;
  while (i < argc && argv[i][0] != '-') words.emplace_back(argv[i++]);
  rest = expand_config({argv + i, argv + argc});
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace headrace;
  CLI::App app("Headrace: training and generation.", "headrace");
  app.set_version_flag("--version", "headrace " HEADRACE_VERSION);
  app.require_subcommand(1);
  Action action;
  CLI::App& train = *app.add_subcommand("train", "Train a model beside another one");
  train.require_subcommand(1);
  add_dflash(train, action);
  add_generate(app, action);
  add_model(app, action);
  std::vector<std::string> words;
  try {
    words = expanded(argc, argv);
  } catch (const Error& error) {
    fmt::print(stderr, "headrace: {}\n", error.what());
    return error.exit_status();
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return run_command(app, static_cast<int>(pointers.size()), pointers.data(), [&] { return action(); });
}
