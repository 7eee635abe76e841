#include "train/checkpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
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
// Before the names of folders that are on their way in and out.
const std::string kWriting = ".writing-", kRemoving = ".removing-";
constexpr const char* kDamaged = "the checkpoint is damaged, use an earlier step";
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

// The step folders of OUT in the order in which they are to be tried: the one that `latest` names,
// those before it from the newest back, and last those of higher numbers, which a run left that has
// gone on from an earlier step.
std::vector<fs::path> steps_in(const fs::path& out) {
  std::string latest;
  std::getline(std::ifstream(out / "latest"), latest);
  const std::uint64_t newest = step_of(latest).value_or(std::numeric_limits<std::uint64_t>::max());
  std::map<std::pair<bool, std::uint64_t>, fs::path, std::greater<>> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out, ignored))
    if (const auto step = step_of(entry.path())) steps[{*step <= newest, *step}] = entry.path();
  std::vector<fs::path> folders;
  for (const auto& [order, folder] : steps) folders.push_back(folder);
  return folders;
}

// Under another name first: killed in between, no folder of a step's name is half there.
void remove_step(const fs::path& folder) {
  const fs::path removed = folder.parent_path() / (kRemoving + folder.filename().string());
  std::error_code error;
  fs::rename(folder, removed, error);
  if (!error) fs::remove_all(removed, error);
}

// Gives the folder its final name. A step of that name, left by another branch of the run or by one
// that was killed before it wrote `latest`, is exchanged for it and goes with the leftovers. File
// systems without exchange remove it first; the checkpoint that the run was resumed from is what is
// left in between.
void put_in_place(const fs::path& folder, const fs::path& final_folder) {
  if (::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, final_folder.c_str(), RENAME_EXCHANGE) == 0)
    return;
  if (errno == EINVAL || errno == ENOSYS) remove_step(final_folder);
  fs::rename(folder, final_folder);
}

// The last line of MANIFEST: of the lines before it.
std::string seal_of(std::string_view lines) {
  return fmt::format("{}  MANIFEST\n", sha256_hex(lines));
}

std::string write_manifest(const fs::path& folder, const std::string& target_sha256) {
  std::string text;
  for (const char* file : kFiles)
    text += fmt::format("{}  {}\n", sha256_file((folder / file).string()), file);
  text += fmt::format("{}  target\n", target_sha256);
  return text + seal_of(text);
}

std::map<std::string, std::string> read_manifest(const fs::path& folder) {
  const std::string text = read_file((folder / "MANIFEST").string());
  const std::size_t lines =
      text.find_last_of('\n', text.size() - std::min<std::size_t>(2, text.size())) + 1;
  if (text.substr(lines) != seal_of(std::string_view(text).substr(0, lines)))
    fail(ErrorCode::bad_input, "{}: MANIFEST does not match its checksum; {}", folder.string(),
         kDamaged);
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
      fail(ErrorCode::bad_input, "{}: {} does not match its checksum; {}", folder.string(), file,
           kDamaged);
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
          sums.at("target"),
          {}};
}

}  // namespace

void remove_leftovers(const std::string& out) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kWriting) || name.starts_with(kRemoving))
      fs::remove_all(entry.path(), ignored);
  }
  remove_unfinished_files(out);
}

void write_checkpoint(const std::string& out, const CheckpointContent& content) {
  const std::string name = fmt::format("step-{}", content.step);
  const fs::path final_folder = fs::path(out) / name, folder = fs::path(out) / (kWriting + name);
  try {
    make_folders(out);
    remove_leftovers(out);
    fs::create_directory(folder);
    write_safetensors((folder / "model.safetensors").string(), content.model, {{"format", "pt"}});
    write_safetensors((folder / "optimizer.safetensors").string(), content.optimizer);
    write_file_atomically((folder / "config.json").string(), content.config.dump(2) + "\n");
    write_file_atomically((folder / "state.json").string(), content.state.dump(2) + "\n");
    write_file_atomically((folder / "MANIFEST").string(),
                          write_manifest(folder, content.target_sha256));
    put_in_place(folder, final_folder);
    sync_folder(out);
    write_file_atomically((fs::path(out) / "latest").string(), name + "\n");
  } catch (const fs::filesystem_error& e) {
    remove_leftovers(out);
    fail(ErrorCode::io, "cannot write checkpoint {}: {}", final_folder.string(),
         e.code().message());
  } catch (...) {
    remove_leftovers(out);
    throw;
  }
  const auto steps = steps_in(out);
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (i >= kKept || step_of(steps[i]) > content.step) remove_step(steps[i]);
  remove_leftovers(out);
}

bool holds_no_checkpoint_yet(const std::string& out) {
  const fs::path folder(out);
  if (!fs::is_directory(folder)) return false;
  return fs::is_empty(folder) || (fs::exists(folder / "steps.jsonl") && steps_in(folder).empty() &&
                                  !fs::exists(folder / "compare.json"));
}

std::string newest_step(const std::string& out) {
  const auto steps = steps_in(out);
  return steps.empty() ? "" : steps.front().filename().string();
}

CheckpointFiles open_checkpoint(const std::string& path,
                                const std::function<void(const std::string&)>& warn) {
  const fs::path given(path);
  if (!fs::is_directory(given)) fail(ErrorCode::bad_input, "{}: no such checkpoint folder", path);
  // "OUT/step-5/" and "step-5" in OUT lie in OUT too.
  if (fs::exists(given / "MANIFEST")) return open_step(fs::canonical(given));
  const auto steps = steps_in(given);
  if (steps.empty()) fail(ErrorCode::bad_input, "{}: holds no checkpoint (no step-N folder)", path);
  for (const fs::path& folder : steps) {
    try {
      CheckpointFiles files = open_step(folder);
      files.newest = steps.front().filename();
      return files;
    } catch (const Error& e) {
      warn(fmt::format("skipped {}: {}", folder.string(), e.what()));
    }
  }
  fail(ErrorCode::bad_input, "{}: none of its {} checkpoints is whole", path, steps.size());
}

}  // namespace headrace
