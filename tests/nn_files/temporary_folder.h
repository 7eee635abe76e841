// A folder that goes with the test; in memory where there is /dev/shm, as some tests write
// thousands of files.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace headrace::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    namespace fs = std::filesystem;
    const fs::path memory = "/dev/shm";
    std::string name =
        (fs::is_directory(memory) ? memory : fs::temp_directory_path()) / "headrace-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace headrace::testing
