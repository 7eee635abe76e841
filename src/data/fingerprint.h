// The hashes by which a manifest recognises a file.
#pragma once

#include <cstdint>

#include "data/input_file.h"
#include "headrace/manifest.h"

namespace headrace {

inline constexpr std::uint64_t kHashedWhole = 1ull << 30;  // bytes; larger files are sampled

// Fills size, sha256, stamp and, with verify_full, full_sha256 (see ManifestFile).
void fingerprint(const InputFile& file, bool verify_full, ManifestFile& entry,
                 std::uint64_t hashed_whole = kHashedWhole);

// Whether sizes and hashes are equal; full hashes only where both have one.
bool same_bytes(const ManifestFile& a, const ManifestFile& b);
[[noreturn]] void refuse_changed(const ManifestFile& old, const ManifestFile& now);

}  // namespace headrace
