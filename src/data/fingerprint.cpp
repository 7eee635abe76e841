#include "data/fingerprint.h"

#include <algorithm>

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

}  // namespace

void fingerprint(const InputFile& file, bool verify_full, ManifestFile& entry,
                 std::uint64_t hashed_whole) {
  entry.size = file.size();
  const bool sampled = file.size() > hashed_whole;
  entry.sha256 = sampled ? sampled_hash(file) : whole_hash(file);
  if (sampled && verify_full) entry.full_sha256 = whole_hash(file);
}

}  // namespace headrace
