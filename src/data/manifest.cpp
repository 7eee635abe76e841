#include "headrace/manifest.h"

#include <map>
#include <set>
#include <utility>

#include "data/fingerprint.h"
#include "headrace/error.h"
#include "headrace/sha256.h"

namespace headrace {
namespace {

// The id of a manifest from that of the manifest without its last file. The name's length stands in
// front, so that no name can pass for two.
std::string chain(const std::string& id, const ManifestFile& file) {
  return sha256_hex(fmt::format("{}\n{}:{}\n{}\n{}\n", id, file.relative.size(), file.relative,
                                file.size, file.sha256));
}

// The files of `now` by name; two --data arguments can hold files of one name.
std::multimap<std::string, const ManifestFile*> by_name(const Manifest& now) {
  std::multimap<std::string, const ManifestFile*> files;
  for (const ManifestFile& file : now.files) files.emplace(file.relative, &file);
  return files;
}

}  // namespace

std::string Manifest::id() const {
  std::string id;
  for (const ManifestFile& file : files) id = chain(id, file);
  return id;
}

std::optional<std::size_t> Manifest::prefix_with(const std::string& wanted) const {
  std::string id;
  for (std::size_t i = 0; i < files.size(); ++i) {
    id = chain(id, files[i]);
    if (id == wanted) return i + 1;
  }
  return std::nullopt;
}

Manifest append(const Manifest& old, const Manifest& now) {
  auto unmatched = by_name(now);
  Manifest result;
  for (const ManifestFile& file : old.files) {
    auto [it, end] = unmatched.equal_range(file.relative);
    if (it == end)
      fail(ErrorCode::bad_input,
           "{}: was removed since the run began; put it back, or start a new run", file.path);
    const ManifestFile& found = *it->second;
    while (it != end && !same_bytes(file, *it->second)) ++it;
    if (it == end) refuse_changed(file, found);
    result.files.push_back(*it->second);
    unmatched.erase(it);
  }
  std::set<const ManifestFile*> added;
  for (const auto& [name, file] : unmatched) added.insert(file);
  for (const ManifestFile& file : now.files)
    if (added.contains(&file)) result.files.push_back(file);
  return result;
}

void check_unchanged(const Manifest& old, const Manifest& now) {
  append(old, now);
}

bool held_out(const std::string& relative) {
  const std::string first_8_bytes = sha256_hex(relative).substr(0, 16);
  return std::stoull(first_8_bytes, nullptr, 16) < UINT64_MAX / 20;
}

std::vector<bool> held_out_files(std::span<const ManifestFile> files) {
  std::vector<bool> held;
  std::uint64_t left_to_train_on = 0;
  for (const ManifestFile& file : files) {
    held.push_back(held_out(file.relative));
    if (!held.back()) left_to_train_on += file.size;
  }
  if (left_to_train_on == 0) held.assign(files.size(), false);
  return held;
}

}  // namespace headrace
