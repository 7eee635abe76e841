// The files of a manifest, read only while they are what the manifest says.
//
// A file is hashed again where its stamp is not the one under which it was hashed last, so a file
// that stays as it is costs one fstat a read, one that was touched or moved costs a hash, and one
// that was changed is refused before any byte of it is handed out, also in the middle of a run. Of
// a file above 1 GiB only its samples are looked at, unless the manifest has its full hash.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "headrace/manifest.h"

namespace headrace {

class VerifiedFiles {
 public:
  explicit VerifiedFiles(const Manifest& manifest);  // keeps a reference

  const Manifest& manifest() const { return manifest_; }

  // Reads `length` bytes of the file at `offset`. Error(bad_input) names a file that was changed or
  // cannot be opened. Any thread.
  void read(std::uint32_t file, std::uint64_t offset, std::uint64_t length, std::string& bytes);

 private:
  bool verified(std::uint32_t file, const FileStamp& stamp) const;

  const Manifest& manifest_;
  mutable std::mutex mutex_;
  std::vector<FileStamp> stamps_;  // under which each file had the manifest's hash
};

}  // namespace headrace
