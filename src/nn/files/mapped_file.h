// A file mapped read-only into memory. Layer: nn (no libtorch).
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace headrace {

class MappedFile {
 public:
  // Error(bad_input) names the path where it is no regular file, is empty or cannot be read.
  // The file must not shrink while it is mapped: the kernel would answer a read with SIGBUS.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace headrace
