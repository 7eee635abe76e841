// A file that is there as a whole or not at all: written under a temporary name beside it, flushed
// to the disk, renamed, and the folder flushed. A symbolic link stays, and the file that it names
// is replaced. What is there and is no regular file (/dev/stdout, a pipe) is written to as it stands.
// Layer: record.
#pragma once

#include <string>
#include <string_view>

namespace headrace {

class AtomicFile {
 public:
  // Error(io) names the path and what the system said; so do write() and commit().
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without commit(): removes the temporary file, leaves what was at `path`
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);  // buffered
  void commit();                       // once; no write() after it

 private:
  void flush();
  [[noreturn]] void refuse(const char* what) const;

  std::string path_;       // as given, for messages
  std::string target_;     // behind symbolic links
  std::string temporary_;  // empty: writes into target_
  std::string buffer_;
  int file_ = -1;
};

void write_file_atomically(const std::string& path, std::string_view bytes);

// Makes the names in a folder durable: those created, renamed and removed so far. Error(io) names
// the folder; a file system that cannot flush a folder (some network ones) is no reason to fail.
void sync_folder(const std::string& folder);

// The folder and those above it that are missing, durably. Error(io) names the first refused.
void make_folders(const std::string& folder);

// Removes what killed programs left of their AtomicFiles in the folder. Only where none is at work.
void remove_unfinished_files(const std::string& folder);

}  // namespace headrace
