// The files that a run trains on, with a hash each, and which of them are held out. Layer: data.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace headrace {

// What the file system says of a file: as long as all of it is the same, nobody wrote to the file.
struct FileStamp {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t changed_ns = 0;  // st_ctim: not to be set back, as the time of modification is

  bool operator==(const FileStamp&) const = default;
};

// One file, immutable while it stands in a manifest.
struct ManifestFile {
  std::string path;      // as opened
  std::string relative;  // to the --data argument it came from: its key in hashes and messages
  std::uint64_t size = 0;
  std::string sha256;  // of the whole file up to 1 GiB; above, "sampled:" and a hash of size, ends
                       // and samples
  std::string full_sha256;  // above 1 GiB and only when asked for: of the whole file
  FileStamp stamp;          // when it was hashed, in this process; no part of its identity or JSON

  bool operator==(const ManifestFile& other) const {
    return path == other.path && relative == other.relative && size == other.size &&
           sha256 == other.sha256 && full_sha256 == other.full_sha256;
  }
};

struct Manifest {
  std::vector<ManifestFile> files;  // sorted by relative path; new files may be appended after them

  // A chained hash over names, sizes and `sha256`: a manifest to which files were appended still
  // knows the id that it had before.
  std::string id() const;
  // The number of leading files that have this id; none where it is another manifest's.
  std::optional<std::size_t> prefix_with(const std::string& id) const;
};

// {"files": [{path, relative, size, sha256, full_sha256}]}. from_json: Error(bad_input) names a key
// that is missing or of another type.
void to_json(nlohmann::json& json, const Manifest& manifest);
void from_json(const nlohmann::json& json, Manifest& manifest);

// Walks --data arguments. A named file is taken whatever its name; in folders, files with the
// extension of a text or source format. Passed over are: hidden folders, site-packages,
// dist-packages, __pycache__, node_modules, test folders, links to folders, and files with a NUL in
// their first 8 KiB. A file reached twice is taken once. `verify_full` fills full_sha256.
// Error(bad_input) names an argument that does not exist, a named file with such a NUL, a folder
// without text, a file that cannot be read, and data of no bytes at all.
Manifest scan(const std::vector<std::string>& paths, bool verify_full = false);

// Error(bad_input) names the first file that was changed or removed since `old`; files that `now`
// adds are fine. Whole-file hashes above 1 GiB are compared where both manifests have them.
void check_unchanged(const Manifest& old, const Manifest& now);

// The files of `old` in their order, as `now` finds them, then the ones that `now` adds: positions
// in `old` stay valid. Checks as check_unchanged does.
Manifest append(const Manifest& old, const Manifest& now);

// Whether a file is held out for evaluation: 5 %, by a hash of its relative path.
bool held_out(const std::string& relative);

// For each file whether it is held out; none is where that would leave no byte to train on.
std::vector<bool> held_out_files(std::span<const ManifestFile> files);

}  // namespace headrace
