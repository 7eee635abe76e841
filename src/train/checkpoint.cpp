#include "train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

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

// The number in "step-N", none for any other name.
std::optional<std::uint64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  std::uint64_t step = 0;
  const char* const end = name.data() + name.size();
  if (name.compare(0, 5, "step-") != 0) return std::nullopt;
  const auto [stop, error] = std::from_chars(name.data() + 5, end, step);
  return error == std::errc() && stop == end ? std::optional(step) : std::nullopt;
}

// The step folders of OUT: the one that `latest` names first, since a run that goes on from an earlier step writes
// smaller numbers than it finds; the others from the highest down.
std::vector<fs::path> steps_in(const fs::path& out) {
  std::vector<std::pair<std::uint64_t, fs::path>> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out, ignored))
    if (const auto step = step_of(entry.path())) steps.emplace_back(*step, entry.path());
  std::sort(steps.rbegin(), steps.rend());
  std::vector<fs::path> folders;
  for (const auto& [step, folder] : steps) folders.push_back(folder);
  std::string latest;
  std::getline(std::ifstream(out / "latest"), latest);
  const auto newest = std::ranges::find(
      folders, latest, [](const fs::path& folder) { return folder.filename().string(); });
  if (newest != folders.end()) std::rotate(folders.begin(), newest, newest + 1);
  return folders;
}

// What a run that was killed while it wrote or replaced a checkpoint left behind.
void remove_leftovers(const fs::path& out) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out, ignored))
    if (entry.path().filename().string().compare(0, 9, ".writing-") == 0)
      fs::remove_all(entry.path(), ignored);
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
CheckpointFiles open_step(const fs::path& folder) {
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
  const nlohmann::json state = read_json(folder / "state.json");
  const auto step = state.find("step");
  if (step == state.end() || !step->is_number_unsigned())
    fail(ErrorCode::bad_input, "{}/state.json: step is missing or no count", folder.string());
  return {folder.string(),
          step->get<std::uint64_t>(),
          read_json(folder / "config.json"),
          state,
          SafeTensorsFile::open((folder / "model.safetensors").string()),
          SafeTensorsFile::open((folder / "optimizer.safetensors").string()),
          sums.at("target")};
}

}  // namespace

void write_checkpoint(const std::string& out, const CheckpointContent& content) {
  const fs::path final_folder = fs::path(out) / fmt::format("step-{}", content.step);
  const fs::path folder = fs::path(out) / fmt::format(".writing-step-{}", content.step);
  const fs::path replaced = fs::path(out) / fmt::format(".writing-old-{}", content.step);
  try {
    remove_leftovers(out);
    fs::create_directories(folder);
    write_safetensors((folder / "model.safetensors").string(), content.model, {{"format", "pt"}});
    write_safetensors((folder / "optimizer.safetensors").string(), content.optimizer);
    write_file_atomically((folder / "config.json").string(), content.config.dump(2) + "\n");
    write_file_atomically((folder / "state.json").string(), content.state.dump(2) + "\n");
    write_file_atomically((folder / "MANIFEST").string(),
                          write_manifest(folder, content.target_sha256));
    if (fs::exists(final_folder)) fs::rename(final_folder, replaced);
    fs::rename(folder, final_folder);
    write_file_atomically((fs::path(out) / "latest").string(),
                          final_folder.filename().string() + "\n");
    fs::remove_all(replaced);
  } catch (const fs::filesystem_error& e) {
    remove_leftovers(out);
    fail(ErrorCode::io, "cannot write checkpoint {}: {}", final_folder.string(),
         e.code().message());
  } catch (...) {
    remove_leftovers(out);
    throw;
  }
  const auto steps = steps_in(out);
  std::error_code ignored;
  for (std::size_t i = kKept; i < steps.size(); ++i) fs::remove_all(steps[i], ignored);
}

CheckpointFiles open_checkpoint(const std::string& path,
                                const std::function<void(const std::string&)>& warn) {
  const fs::path given(path);
  if (!fs::is_directory(given)) fail(ErrorCode::bad_input, "{}: no such checkpoint folder", path);
  if (fs::exists(given / "MANIFEST")) return open_step(given);
  const auto steps = steps_in(given);
  if (steps.empty()) fail(ErrorCode::bad_input, "{}: holds no checkpoint (no step-N folder)", path);
  for (const fs::path& folder : steps) {
    try {
      return open_step(folder);
    } catch (const Error& e) {
      warn(fmt::format("skipped {}: {}", folder.string(), e.what()));
    }
  }
  fail(ErrorCode::bad_input, "{}: none of its {} checkpoints is whole", path, steps.size());
}

}  // namespace headrace
