// `headrace`: the commands that need no libtorch. Training lives in headrace-train, which is
// started in the place of this process, as git does with its commands.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>

#include "cli/commands.h"

namespace headrace {
namespace {

constexpr std::array train_commands{
    std::pair{"train", "Train a drafter beside its target (headrace-train)"},
    std::pair{"generate", "Generate text by speculative decoding (headrace-train)"},
    std::pair{"model", "Show a model file, its token ids and log-probabilities (headrace-train)"}};

// Does not return: headrace-train, beside this program, goes on with the same arguments.
[[noreturn]] void become_train(char** argv) {
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "headrace-train";
  // libgomp spins for milliseconds before it sleeps; on a machine with other work that costs more
  // than it saves.
  ::setenv("GOMP_SPINCOUNT", "10000", /*overwrite=*/0);
  ::execv(program.c_str(), argv);
  if (errno == ENOENT)
    fail(ErrorCode::resource,
         "`{}` needs {}, which is not built: run `make setup` for libtorch, then `make build`",
         argv[1], program);
  fail(ErrorCode::io, "cannot start {}: {}", program, std::strerror(errno));
}

int run(CLI::App& app, int argc, char** argv) {
  app.set_version_flag("--version", "headrace " HEADRACE_VERSION);
  app.require_subcommand(1);
  std::map<std::string, Action> actions;
  actions["analyze"] = add_analyze(app);
  actions["predict"] = add_predict(app);
  actions["doctor"] = add_doctor(app);
  for (const auto& [name, summary] : train_commands) {
    // Before parsing: their switches, --help among them, are for headrace-train to read.
    if (argc > 1 && std::string_view(argv[1]) == name) become_train(argv);
    app.add_subcommand(name, summary);
  }
  app.parse(argc, argv);
  return actions.at(app.get_subcommands().front()->get_name())();
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  CLI::App app("Headrace runs, traces and predicts overlapped pipelines.", "headrace");
  return headrace::run_command(app, [&] { return headrace::run(app, argc, argv); });
}
