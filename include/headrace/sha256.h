// SHA-256, for manifests, checkpoints and weights_sha256. Layer: data.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace headrace {

// Fed in pieces. Copying is not possible; moving leaves the source unusable.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view bytes) {
    return update(std::as_bytes(std::span(bytes.data(), bytes.size())));
  }
  // The digest of all that was fed, as 64 lower-case hex digits; the object then starts anew.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view bytes);

// Of a whole file, read in pieces. Error(bad_input) names a file that cannot be opened, Error(io)
// one that cannot be read.
std::string sha256_file(const std::string& path);

}  // namespace headrace
