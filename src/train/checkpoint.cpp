#include "train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "headrace/atomic_file.h"
#include "headrace/error.h"
#include "headrace/sha256.h"
#include "plan/files.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKept = 2;
const char* const kFiles[] = {"config.json", "model.safetensors", "optimizer.safetensors",
                              "state.json"};

// Steps found in a folder, newest first.
std::vector<std::pair<std::uint64_t, fs::path>> steps_in(const fs::path& out) {
  std::vector<std::pair<std::uint64_t, fs::path>> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= 5 || name.compare(0, 5, "step-") != 0 ||
        !std::all_of(name.begin() + 5, name.end(), ::isdigit))
      continue;
    steps.emplace_back(std::stoull(name.substr(5)), entry.path());
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::string write_manifest(const fs::path& folder, const std::string& target_sha256) {
  std::string text;
  for (const char* file : kFiles)
    text += fmt::format("{}  {}\n", sha256_file((folder / file).string()), file);
  return text + fmt::format("{}  target\n", target_sha256);
}

std::map<std::string, std::string> read_manifest(const fs::path& folder) {
  const std::string text = read_file((folder / "MANIFEST").string());
  std::map<std::string, std::string> sums;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.size() > 66) sums[line.substr(66)] = line.substr(0, 64);
    at = end + 1;
  }
  return sums;
}

nlohmann::json read_json(const fs::path& path) {
  try {
    return nlohmann::json::parse(read_file(path.string()));
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::bad_input, "{}: not JSON ({})", path.string(), e.what());
  }
}

// Error(bad_input) names the first file that is missing or damaged.
CheckpointFiles open_step(const fs::path& folder, std::uint64_t step) {
  const auto sums = read_manifest(folder);
  for (const char* file : kFiles) {
    const auto sum = sums.find(file);
    if (sum == sums.end())
      fail(ErrorCode::bad_input, "{}: MANIFEST does not list {}", folder.string(), file);
    if (sha256_file((folder / file).string()) != sum->second)
      fail(ErrorCode::bad_input,
           "{}: {} does not match its checksum; the checkpoint is damaged, use an earlier step",
           folder.string(), file);
  }
  if (!sums.count("target"))
    fail(ErrorCode::bad_input, "{}: MANIFEST does not name its target", folder.string());
  return {folder.string(),
          step,
          read_json(folder / "config.json"),
          read_json(folder / "state.json"),
          SafeTensorsFile::open((folder / "model.safetensors").string()),
          SafeTensorsFile::open((folder / "optimizer.safetensors").string()),
          sums.at("target")};
}

}  // namespace

void write_checkpoint(const std::string& out, const CheckpointContent& content) {
  const fs::path final_folder = fs::path(out) / fmt::format("step-{}", content.step);
  const fs::path folder = fs::path(out) / fmt::format(".writing-step-{}", content.step);
  try {
    fs::remove_all(folder);
    fs::create_directories(folder);
    write_safetensors((folder / "model.safetensors").string(), content.model, {{"format", "pt"}});
    write_safetensors((folder / "optimizer.safetensors").string(), content.optimizer);
    write_file_atomically((folder / "config.json").string(), content.config.dump(2) + "\n");
    write_file_atomically((folder / "state.json").string(), content.state.dump(2) + "\n");
    write_file_atomically((folder / "MANIFEST").string(),
                          write_manifest(folder, content.target_sha256));
    fs::remove_all(final_folder);
    fs::rename(folder, final_folder);
    write_file_atomically((fs::path(out) / "latest").string(),
                          final_folder.filename().string() + "\n");
  } catch (const fs::filesystem_error& e) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    fail(ErrorCode::io, "cannot write checkpoint {}: {}", final_folder.string(),
         e.code().message());
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
  const auto steps = steps_in(out);
  std::error_code ignored;
  for (std::size_t i = kKept; i < steps.size(); ++i) fs::remove_all(steps[i].second, ignored);
}

CheckpointFiles open_checkpoint(const std::string& path,
                                const std::function<void(const std::string&)>& warn) {
  const fs::path given(path);
  if (!fs::is_directory(given)) fail(ErrorCode::bad_input, "{}: no such checkpoint folder", path);
  if (fs::exists(given / "MANIFEST")) {
    std::string name = fs::canonical(given).filename().string();
    const bool named = name.compare(0, 5, "step-") == 0 && name.size() > 5 &&
                       std::all_of(name.begin() + 5, name.end(), ::isdigit);
    return open_step(given, named ? std::stoull(name.substr(5)) : 0);
  }
  const auto steps = steps_in(given);
  if (steps.empty()) fail(ErrorCode::bad_input, "{}: holds no checkpoint (no step-N folder)", path);
  for (const auto& [step, folder] : steps) {
    try {
      return open_step(folder, step);
    } catch (const Error& e) {
      warn(fmt::format("skipped {}: {}", folder.string(), e.what()));
    }
  }
  fail(ErrorCode::bad_input, "{}: none of its {} checkpoints is whole", path, steps.size());
}

}  // namespace headrace
