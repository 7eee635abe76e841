#include "data/input_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "headrace/error.h"

namespace headrace {

InputFile::InputFile(const std::string& path)
    // Without O_NONBLOCK the opening of a named pipe would wait for its writer.
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0 || ::fstat(descriptor_, &status_) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    fail(ErrorCode::bad_input, "{}: cannot be opened: {}", path, std::strerror(error));
  }
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

FileStamp InputFile::stamp() const {
  struct stat now;
  if (::fstat(descriptor_, &now) != 0)
    fail(ErrorCode::io, "{}: fstat failed: {}", path_, std::strerror(errno));
  return {.device = now.st_dev,
          .inode = now.st_ino,
          .size = static_cast<std::uint64_t>(now.st_size),
          .changed_ns = now.st_ctim.tv_sec * std::int64_t{1'000'000'000} + now.st_ctim.tv_nsec};
}

void InputFile::read(std::uint64_t offset, std::uint64_t length, std::string& bytes) const {
  bytes.resize(length);
  for (std::uint64_t done = 0; done < length;) {
    const ssize_t n =
        ::pread(descriptor_, bytes.data() + done, length - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      fail(ErrorCode::io, "{}: cannot be read at byte {}: {}", path_, offset + done,
           std::strerror(errno));
    if (n == 0)
      fail(ErrorCode::bad_input,
           "{}: ends at byte {}, where {} were expected: the file was changed meanwhile", path_,
           offset + done, offset + length);
    done += static_cast<std::uint64_t>(n);
  }
}

}  // namespace headrace
