// A folder that goes with the test; in memory where there is /dev/shm, as some tests write
// thousands of files.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace headrace::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    namespace fs = std::filesystem;
    const fs::path memory = "/dev/shm";
    std::string name =
        (fs::is_directory(memory) ? memory : fs::temp_directory_path()) / "headrace-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no temporary folder at " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& relative) const { return path_ + "/" + relative; }

  // Makes the folders that `relative` names.
  void write(const std::string& relative, std::string_view bytes) const {
    const std::filesystem::path path = *this / relative;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file << bytes;
    if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
  }
  std::string read(const std::string& relative) const {
    std::ifstream file(*this / relative, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + (*this / relative));
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

}  // namespace headrace::testing
