// A file open for reading at any offset. (Not mapped: a file that shrinks would end the process.)
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <utility>

#include "headrace/manifest.h"

namespace headrace {

class InputFile {
 public:
  explicit InputFile(
      const std::string& path);  // Error(bad_input) names a file that cannot be opened
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return static_cast<std::uint64_t>(status_.st_size); }
  bool is_regular() const { return S_ISREG(status_.st_mode); }
  std::pair<dev_t, ino_t> identity() const { return {status_.st_dev, status_.st_ino}; }
  FileStamp stamp() const;  // as it is now; size() is that of when it was opened

  // Reads exactly `length` bytes into `bytes`. Error(io) where the system refuses; Error(bad_input)
  // where the file ends earlier: it was cut after it had been measured.
  void read(std::uint64_t offset, std::uint64_t length, std::string& bytes) const;

 private:
  std::string path_;
  int descriptor_;
  struct stat status_ {};
};

}  // namespace headrace
