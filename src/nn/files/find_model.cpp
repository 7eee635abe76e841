#include <cstdlib>
#include <filesystem>
#include <vector>

#include "headrace/error.h"
#include "headrace/gguf.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::vector<fs::path> children(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    found.push_back(it->path());
  return found;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Folders named in HEADRACE_MODELS, in their order.
std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  const std::string list = environment("HEADRACE_MODELS");
  for (std::size_t from = 0; from <= list.size();) {
    const std::size_t to = std::min(list.find(':', from), list.size());
    if (to > from) folders.emplace_back(list.substr(from, to - from));
    from = to + 1;
  }
  return folders;
}

// HEADRACE_VENV where it is set; else each .venv from the executable's and the current folder up.
std::vector<fs::path> environments() {
  if (const std::string named = environment("HEADRACE_VENV"); !named.empty()) return {named};
  std::error_code ignored;
  std::vector<fs::path> found;
  for (fs::path start :
       {fs::read_symlink("/proc/self/exe", ignored).parent_path(), fs::current_path(ignored)}) {
    for (;; start = start.parent_path()) {
      if (fs::is_directory(start / ".venv", ignored)) found.push_back(start / ".venv");
      if (start == start.parent_path()) break;
    }
  }
  return found;
}

}  // namespace

std::string find_model(const std::string& name_or_path) {
  if (is_file(name_or_path)) return name_or_path;
  std::string looked = name_or_path;
  const bool plain_name = name_or_path.find('/') == std::string::npos && !name_or_path.empty();
  if (plain_name) {
    for (const fs::path& folder : model_folders()) {
      if (is_file(folder / name_or_path)) return folder / name_or_path;
      looked += fmt::format(", {}", (folder / name_or_path).string());
    }
    for (const fs::path& venv : environments()) {
      for (const fs::path& python : children(venv / "lib"))
        for (const fs::path& package : children(python / "site-packages"))
          if (is_file(package / name_or_path)) return package / name_or_path;
      looked += fmt::format(", {}/lib/python*/site-packages/*/", venv.string());
    }
  }
  fail(ErrorCode::bad_input,
       "there is no model \"{}\"; looked at: {}. Give a path, set HEADRACE_MODELS, or run `make "
       "setup`",
       name_or_path, looked);
}

}  // namespace headrace
