#include "plan/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "headrace/error.h"

namespace headrace {
namespace {

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

void read_pieces(const std::string& path, const std::function<void(std::string_view)>& use) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0)
    fail(ErrorCode::bad_input, "{}: cannot be opened: {}", path, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) fail(ErrorCode::bad_input, "{}: is a folder, not a file", path);
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
    fail(ErrorCode::bad_input, "{}: is neither a regular file nor a pipe", path);
  std::vector<char> piece(1 << 18);
  for (;;) {
    const ssize_t got = ::read(file.number(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::io, "{}: cannot be read: {}", path, std::strerror(errno));
    if (got == 0) return;
    use({piece.data(), static_cast<std::size_t>(got)});
  }
}

std::string read_file(const std::string& path) {
  std::string bytes;
  read_pieces(path, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

}  // namespace headrace
