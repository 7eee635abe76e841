#include "data/fingerprint.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "headrace/error.h"
#include "headrace/sha256.h"

namespace headrace {
namespace {

constexpr std::uint64_t kBlock = 1 << 20;  // bytes read at once
constexpr std::uint64_t kSamples = 64, kSampleBytes = 64 << 10;

std::string whole_hash(const InputFile& file) {
  Sha256 sha;
  std::string block;
  for (std::uint64_t offset = 0; offset < file.size(); offset += kBlock) {
    file.read(offset, std::min(kBlock, file.size() - offset), block);
    sha.update(block);
  }
  return sha.hex();
}

// Size, the first and last sample, and those between at equal distances.
std::string sampled_hash(const InputFile& file) {
  Sha256 sha;
  sha.update(std::to_string(file.size()) + "\n");
  std::string block;
  const std::uint64_t length = std::min(kSampleBytes, file.size());
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    file.read((file.size() - length) / (kSamples - 1) * i, length, block);
    sha.update(block);
  }
  file.read(file.size() - length, length, block);
  return "sampled:" + sha.update(block).hex();
}

// File systems tell times of change no finer than this apart (2 s: FAT; the kernel's tick: 10 ms).
constexpr std::int64_t kFinestChangeNs = 2'000'000'000;

// The stamp of a file that is hashed from now on; none where a change in this very moment would
// leave it as it is.
FileStamp settled_stamp(const InputFile& file) {
  const FileStamp stamp = file.stamp();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t age_ns = std::chrono::nanoseconds(now).count() - stamp.changed_ns;
  return std::abs(age_ns) > kFinestChangeNs ? stamp : FileStamp{};
}

}  // namespace

void fingerprint(const InputFile& file, bool verify_full, ManifestFile& entry,
                 std::uint64_t hashed_whole) {
  entry.stamp = settled_stamp(file);
  entry.size = file.size();
  const bool sampled = file.size() > hashed_whole;
  entry.sha256 = sampled ? sampled_hash(file) : whole_hash(file);
  if (sampled && verify_full) entry.full_sha256 = whole_hash(file);
}

bool same_bytes(const ManifestFile& a, const ManifestFile& b) {
  const bool both_full = !a.full_sha256.empty() && !b.full_sha256.empty();
  return a.size == b.size && a.sha256 == b.sha256 && (!both_full || a.full_sha256 == b.full_sha256);
}

void refuse_changed(const ManifestFile& old, const ManifestFile& now) {
  fail(ErrorCode::bad_input,
       "{}: was changed since the run began ({} bytes, sha256 {}; it had {} bytes, sha256 {}); "
       "restore it, or start a new run",
       now.path, now.size, now.sha256, old.size, old.sha256);
}

}  // namespace headrace
