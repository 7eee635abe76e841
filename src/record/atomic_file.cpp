#include "headrace/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "headrace/error.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = 1 << 18;

// Behind the name of the file, and six characters of mkostemp() behind it.
constexpr std::string_view kUnfinished = ".tmp-";
constexpr std::size_t kRandomCharacters = 6;

// The file that `path` names in the end, also where that file is not there yet. At most 40 links
// deep, as in Linux; a longer chain is then refused by the system.
std::string behind_links(fs::path path) {
  std::error_code none;
  for (int links = 0; links < 40; ++links) {
    const fs::path next = fs::read_symlink(path, none);
    // The links of /proc (/dev/stdout is one) name what they stand for, such as "pipe:[42]", and
    // are only to be opened.
    if (none || path.string().starts_with("/proc/")) break;
    path = path.parent_path() / next;
  }
  return path.string();
}

// umask() can only be read by setting it, which other threads would see.
mode_t mode_mask() {
  mode_t mask = 022;
  if (std::ifstream status("/proc/self/status"); status)
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("Umask:"))
        mask = static_cast<mode_t>(std::stoul(line.substr(6), nullptr, 8));
  return mask;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), target_(behind_links(path_)) {
  struct stat status {};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    file_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_ < 0) refuse("open");
    return;
  }
  temporary_ = fmt::format("{}{}{}", target_, kUnfinished, std::string(kRandomCharacters, 'X'));
  file_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (file_ < 0) refuse("create");
  // mkostemp() lets nobody else read: give the mode of the file replaced, or of any new one.
  ::fchmod(file_, exists ? status.st_mode & 07777 : 0666 & ~mode_mask());
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kBufferBytes) flush();
}

void AtomicFile::commit() {
  flush();
  if (!temporary_.empty()) {
    if (::fsync(file_) != 0) refuse("flush");
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) refuse("rename");
    sync_folder(fs::path(target_).parent_path());
  }
  ::close(file_);
  file_ = -1;
}

void AtomicFile::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("write");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void AtomicFile::refuse(const char* what) const {
  fail(ErrorCode::io, "{}: cannot {} the file: {}", path_, what, std::strerror(errno));
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void sync_folder(const std::string& folder) {
  const std::string path = folder.empty() ? "." : folder;
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = file >= 0 && ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  // EACCES: a folder that may be written to but not read. The others: not made for folders.
  if (flushed || error == EACCES || error == EINVAL || error == EBADF || error == ENOTSUP) return;
  fail(ErrorCode::io, "{}: cannot flush the folder: {}", path, std::strerror(error));
}

void make_folders(const std::string& folder) {
  const fs::path path(folder);
  if (path.empty() || fs::is_directory(path)) return;
  make_folders(path.parent_path());
  if (std::error_code error; !fs::create_directory(path, error) && error)
    fail(ErrorCode::io, "{}: cannot create the folder: {}", folder, error.message());
  sync_folder(path.parent_path());
}

void remove_unfinished_files(const std::string& folder) {
  const std::size_t ending = kUnfinished.size() + kRandomCharacters;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (name.size() > ending &&
        name.substr(name.size() - ending, kUnfinished.size()) == kUnfinished)
      fs::remove(entry.path(), ignored);
  }
}

}  // namespace headrace
