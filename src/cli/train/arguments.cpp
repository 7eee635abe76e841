#include "cli/train/arguments.h"

#include <yaml-cpp/yaml.h>

#include "headrace/error.h"

namespace headrace {
namespace {

void append_switches(const std::string& path, std::vector<std::string>& out) {
  YAML::Node root;
  try {
    root = YAML::LoadFile(path);
  } catch (const YAML::BadFile&) {
    fail(ErrorCode::bad_input, "--config {}: cannot be read", path);
  } catch (const YAML::Exception& e) {
    fail(ErrorCode::bad_input, "--config {}: {}", path, e.what());
  }
  if (!root.IsMap())
    fail(ErrorCode::bad_input, "--config {}: a map of switches is expected, e.g. \"steps: 20\"",
         path);
  for (const auto& entry : root) {
    const auto key = entry.first.as<std::string>();
    const YAML::Node& value = entry.second;
    if (value.IsScalar() && (value.Scalar() == "true" || value.Scalar() == "false")) {
      if (value.Scalar() == "true") out.push_back("--" + key);
    } else if (value.IsScalar()) {
      out.insert(out.end(), {"--" + key, value.Scalar()});
    } else if (value.IsSequence()) {
      out.push_back("--" + key);
      for (const auto& item : value) {
        if (!item.IsScalar())
          fail(ErrorCode::bad_input, "--config {}:{}: {}: a list of plain values is expected", path,
               item.Mark().line + 1, key);
        out.push_back(item.Scalar());
      }
    } else {
      fail(ErrorCode::bad_input, "--config {}:{}: {}: a value or a list is expected", path,
           value.Mark().line + 1, key);
    }
  }
}

}  // namespace

std::vector<std::string> expand_config(const std::vector<std::string>& arguments) {
  std::vector<std::string> from_files, rest;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--config") {
      if (i + 1 == arguments.size()) fail(ErrorCode::usage, "--config needs a file");
      append_switches(arguments[++i], from_files);
    } else if (arguments[i].compare(0, 9, "--config=") == 0) {
      append_switches(arguments[i].substr(9), from_files);
    } else {
      rest.push_back(arguments[i]);
    }
  }
  from_files.insert(from_files.end(), rest.begin(), rest.end());
  return from_files;
}

}  // namespace headrace
