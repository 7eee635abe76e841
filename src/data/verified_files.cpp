#include "data/verified_files.h"

#include "data/fingerprint.h"
#include "data/input_file.h"

namespace headrace {

VerifiedFiles::VerifiedFiles(const Manifest& manifest) : manifest_(manifest) {
  for (const ManifestFile& file : manifest.files) stamps_.push_back(file.stamp);
}

void VerifiedFiles::read(std::uint32_t file, std::uint64_t offset, std::uint64_t length,
                         std::string& bytes) {
  const ManifestFile& entry = manifest_.files[file];
  const InputFile input(entry.path);
  input.read(offset, length, bytes);
  if (verified(file, input.stamp())) return;
  // Hashed after it was read, so that what is found to be unchanged now was so then.
  ManifestFile found{.path = entry.path, .relative = entry.relative};
  fingerprint(input, !entry.full_sha256.empty(), found);
  if (!same_bytes(entry, found)) refuse_changed(entry, found);
  const std::lock_guard lock(mutex_);
  stamps_[file] = found.stamp;
}

bool VerifiedFiles::verified(std::uint32_t file, const FileStamp& stamp) const {
  const std::lock_guard lock(mutex_);
  return stamps_[file] == stamp;
}

}  // namespace headrace
