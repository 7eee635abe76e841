// Reads and writes safetensors files (F32, BF16, F16, I64, U8). Layer: nn (no libtorch).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace headrace {

struct SafeTensor {
  std::string name, dtype;  // dtype as in the format: "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;  // little-endian, row-major
  std::uint64_t bytes = 0;
};

class SafeTensorsFile {
 public:
  static SafeTensorsFile open(
      const std::string& path);  // Error(bad_input): header, offsets and sizes are checked
  const std::map<std::string, SafeTensor>& tensors() const;
  const SafeTensor& tensor(
      const std::string& name) const;  // Error(bad_input) names file and tensor
  const std::map<std::string, std::string>& metadata() const;

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

// Writes in the order of names, and to the disk itself. Error(io) where the disk refuses, which
// leaves part of a file: write under a temporary name and rename.
void write_safetensors(const std::string& path, const std::vector<SafeTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace headrace
