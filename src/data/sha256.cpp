#include "headrace/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "headrace/error.h"
#include "plan/files.h"

namespace headrace {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }

  void start() {
    if (evp == nullptr || EVP_DigestInit_ex(evp, EVP_sha256(), nullptr) != 1)
      fail(ErrorCode::internal, "sha256: libcrypto could not start a digest");
  }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  context_->start();
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) != 1)
    fail(ErrorCode::internal, "sha256: libcrypto refused {} bytes", bytes.size());
  return *this;
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  if (EVP_DigestFinal_ex(context_->evp, digest.data(), nullptr) != 1)
    fail(ErrorCode::internal, "sha256: libcrypto could not finish a digest");
  context_->start();
  std::string text;
  for (unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  return Sha256().update(bytes).hex();
}
std::string sha256_hex(std::string_view bytes) {
  return Sha256().update(bytes).hex();
}

std::string sha256_file(const std::string& path) {
  Sha256 sha;
  read_pieces(path, [&](std::string_view piece) { sha.update(piece); });
  return sha.hex();
}

}  // namespace headrace
