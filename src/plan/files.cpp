#include "plan/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "headrace/error.h"

namespace headrace {
namespace {

[[noreturn]] void refuse(const char* what, const std::string& path) {
  const int error = errno;
  const bool input = error == ENOENT || error == EISDIR || error == ENOTDIR;
  fail(input ? ErrorCode::bad_input : ErrorCode::io, "{}: cannot {}: {}", path, what,
       std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

std::string read_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) refuse("open", path);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) refuse("open", path);
  if (S_ISDIR(status.st_mode)) fail(ErrorCode::bad_input, "{}: is a folder, not a file", path);
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t size = 0;
  for (;;) {
    if (size == bytes.size()) bytes.resize(size + 4096);
    const ssize_t got = ::read(file.number(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse("read", path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace headrace
