// headrace-train: the commands that need libtorch. `headrace` starts it in its place.
#include <map>
#include <vector>

#include "cli/train/arguments.h"
#include "cli/train/commands.h"

namespace headrace {
namespace {

// The arguments as main() gets them, with --config expanded behind the words that name the command.
std::vector<std::string> expanded(int argc, char** argv) {
  std::vector<std::string> words{argv[0]};
  int i = 1;
  while (i < argc && argv[i][0] != '-') words.emplace_back(argv[i++]);
  for (std::string& word : expand_config({argv + i, argv + argc})) words.push_back(std::move(word));
  return words;
}

// CLI11 2.3 reads "-3" as 2^64 - 3 where a count is expected.
void refuse_negative_counts(CLI::App& app) {
  const auto check = [](const std::string& text) {
    return text.find('-') == std::string::npos ? "" : "must not be negative: " + text;
  };
  for (CLI::Option* option : app.get_options())
    if (option->get_type_name() == "UINT") option->check(check);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    refuse_negative_counts(*command);
}

int run(CLI::App& app, int argc, char** argv) {
  app.set_version_flag("--version", "headrace " HEADRACE_VERSION);
  app.require_subcommand(1);
  CLI::App& train = *app.add_subcommand("train", "Train a model beside another one");
  train.require_subcommand(1);
  std::map<std::string, Action> actions;
  actions["headrace train dflash"] = add_dflash(train);
  actions["headrace generate"] = add_generate(app);
  actions["headrace model"] = add_model(app);
  refuse_negative_counts(app);

  std::vector<std::string> words = expanded(argc, argv);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  app.parse(static_cast<int>(pointers.size()), pointers.data());
  return actions.at(command_name(app))();
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  CLI::App app("Headrace: training and generation.", "headrace");
  return headrace::run_command(app, [&] { return headrace::run(app, argc, argv); });
}
