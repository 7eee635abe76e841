// Reads GGUF model files by mmap; every count, length and offset is checked against the file before
// it is used. Layer: nn (no libtorch).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace headrace {

enum class GgmlType : std::uint32_t { F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q8_0 = 8, BF16 = 30 };

struct GgufTensor {
  std::string name;
  std::vector<std::uint64_t>
      shape;  // outermost first (GGUF stores the reverse): a weight is [out, in]
  GgmlType type = GgmlType::F32;
  const std::byte* data = nullptr;  // inside the mapping, valid as long as the GgufFile
  std::uint64_t bytes = 0;
  std::uint64_t elements() const;
};

using GgufValue =
    std::variant<std::uint64_t, std::int64_t, double, bool, std::string, std::vector<std::string>,
                 std::vector<double>, std::vector<std::int64_t>>;

class GgufFile {
 public:
  // Error(bad_input) names the file, the offset and what is wrong: truncated, wrong magic or
  // version, a count or offset that points outside the file, an unsupported tensor type (by name),
  // duplicates.
  static GgufFile open(const std::string& path);

  const std::string& path() const;
  const std::map<std::string, GgufValue>& metadata() const;
  const std::vector<GgufTensor>& tensors() const;

  bool has(const std::string& key) const;
  // Error(bad_input) naming file and key where it is absent or of another type.
  std::uint64_t integer(const std::string& key) const;
  double real(const std::string& key) const;
  const std::string& text(const std::string& key) const;
  const std::vector<std::string>& texts(const std::string& key) const;

  const GgufTensor& tensor(const std::string& name) const;  // Error(bad_input) where absent
  // Values as fp32, row-major. `out` holds elements() floats.
  static void dequantize(const GgufTensor& tensor, float* out);
  // The same for rows [first, first + count) of a tensor of two dimensions.
  static void dequantize_rows(const GgufTensor& tensor, std::uint64_t first, std::uint64_t count,
                              float* out);

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

// A MODEL argument: a path, or a file name looked up in the folders of HEADRACE_MODELS (colon
// separated) and in the set-up's .venv. Error(bad_input) lists where it looked.
std::string find_model(const std::string& name_or_path);

}  // namespace headrace
