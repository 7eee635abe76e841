// Reads little-endian values from a file in memory and refuses to leave it. Layer: nn (no
// libtorch).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "headrace/error.h"

namespace headrace {

static_assert(std::endian::native == std::endian::little, "model files are read as they lie");

// Text from a file as it may stand in a message: control bytes and non-ASCII as \xNN, at most 80
// characters.
inline std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.size() >= 80) return out + "...";
    if (c >= 0x20 && c < 0x7f)
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, const std::string& path)
      : bytes_(bytes), path_(path) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t remaining() const { return bytes_.size() - offset_; }

  template <typename T>
  T read(const char* what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  // A length in 64 bits and as many bytes.
  std::string_view text(const char* what) {
    const auto length = read<std::uint64_t>(what);
    need(length, what);
    const auto* data = reinterpret_cast<const char*>(bytes_.data() + offset_);
    offset_ += length;
    return {data, length};
  }

  // How many follow, each of at least `smallest` bytes: a count that the rest of the file cannot
  // hold is a lie, and is found before anything is allocated for it.
  std::uint64_t count(std::uint64_t smallest, const char* what) {
    const std::uint64_t at = offset_;
    const auto n = read<std::uint64_t>(what);
    if (n > remaining() / smallest)
      refuse_at(at, "{} is {}, but only {} bytes follow", what, n, remaining());
    return n;
  }

  void need(std::uint64_t bytes, const char* what) const {
    if (bytes > remaining())
      refuse_at(offset_, "{} takes {} bytes, but the file ends after {} (truncated?)", what, bytes,
                remaining());
  }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    refuse_at(offset_, format, std::forward<Args>(args)...);
  }

  template <typename... Args>
  [[noreturn]] void refuse_at(std::uint64_t at, fmt::format_string<Args...> format,
                              Args&&... args) const {
    fail(ErrorCode::bad_input, "{}: offset {}: {}", path_, at,
         fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
  std::uint64_t offset_ = 0;
};

}  // namespace headrace
