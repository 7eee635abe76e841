#include "record/write_at.h"

#include <unistd.h>

#include <cerrno>

namespace headrace {

bool write_at(int file, std::string_view text, std::uint64_t offset) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(file, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return true;
}

}  // namespace headrace
