#include "nn/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "headrace/error.h"

namespace headrace {

MappedFile::MappedFile(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    fail(ErrorCode::bad_input, "{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = MAP_FAILED;
  int error = 0;
  if (regular && size > 0) {
    address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    error = errno;
  }
  ::close(descriptor);  // the mapping keeps the file open
  if (!regular) fail(ErrorCode::bad_input, "{}: is not a regular file", path);
  if (size == 0) fail(ErrorCode::bad_input, "{}: is empty", path);
  if (address == MAP_FAILED)
    fail(ErrorCode::bad_input, "{}: cannot be mapped: {}", path, std::strerror(error));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace headrace
