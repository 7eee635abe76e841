#include "train/steps_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "headrace/atomic_file.h"
#include "headrace/error.h"
#include "record/write_at.h"
#include "train/checkpoint.h"
#include "train/dflash_trainer.h"

namespace headrace {
namespace {

constexpr std::uint64_t kLongestLine = 4096;  // bytes, more than any

std::string descent(std::uint64_t step, std::uint64_t byte) {
  return nlohmann::ordered_json{{"resumed_at_step", step}, {"byte", byte}}.dump() + "\n";
}

std::string line_of(const StepLog& log) {
  const nlohmann::ordered_json json{{"step", log.step + 1},           {"batch", log.position.batch},
                                    {"epoch", log.position.epoch},    {"shard", log.position.shard},
                                    {"row", log.position.row},        {"tokens", log.tokens},
                                    {"rows_sha256", log.rows_sha256}, {"loss", log.loss}};
  return json.dump() + "\n";
}

// The step in the last line of the text; 0 where it is none.
std::uint64_t step_of_last_line(std::string_view text) {
  if (!text.ends_with('\n')) return 0;
  text.remove_suffix(1);
  const auto line = nlohmann::json::parse(text.substr(text.rfind('\n') + 1), nullptr, false);
  const auto step = line.is_object() ? line.find("step") : line.end();
  return step != line.end() && step->is_number_unsigned() ? step->get<std::uint64_t>() : 0;
}

}  // namespace

void add_rows(Sha256& hash, const TokenBatch& batch) {
  for (const auto* values : {&batch.row_lengths, &batch.tokens, &batch.anchors})
    hash.update(std::as_bytes(std::span(*values)));
}

StepsLog::StepsLog(const std::string& out) : out_(out), path_(out + "/steps.jsonl") {}

StepsLog::~StepsLog() {
  if (file_ >= 0) ::close(file_);
}

bool StepsLog::go_on_in_place(std::uint64_t step, std::uint64_t bytes) {
  lock();
  struct stat status {};
  if (::fstat(file_, &status) != 0) refuse("look at");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const bool held = bytes <= size &&
                    step_of_last_line(read(bytes - std::min(bytes, kLongestLine), bytes)) == step;
  const std::uint64_t begin = held ? bytes : 0;
  // A line that a killed run had not written to its end goes.
  bytes_ = begin + read(begin, size).rfind('\n') + 1;
  if (bytes_ < size && ::ftruncate(file_, static_cast<off_t>(bytes_)) != 0) refuse("shorten");
  descent_ = descent(step, begin);
  return held;
}

void StepsLog::begin(std::optional<std::uint64_t> after) {
  lock();
  if (!holds_no_checkpoint_yet(out_))
    fail(ErrorCode::resource,
         "{}: another run wrote here meanwhile: choose another folder, or --resume it", out_);
  // What a run left that was killed before its first checkpoint: nothing descends from it.
  if (::ftruncate(file_, 0) != 0) refuse("shorten");
  if (after) descent_ = descent(*after, 0);
}

void StepsLog::append(const StepLog& step) {
  write(descent_ + line_of(step));
  descent_.clear();
}

std::uint64_t StepsLog::sync() {
  if (file_ >= 0 && sync_error_ == 0 && ::fdatasync(file_) != 0) sync_error_ = errno;
  errno = sync_error_;
  if (sync_error_ != 0) refuse("flush");
  return bytes_;
}

void StepsLog::lock() {
  if (file_ >= 0) return;
  make_folders(out_);
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) refuse("open");
  // The lock goes with the process, however that ends. A file system without locks guards nothing.
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(std::exchange(file_, -1));
  fail(ErrorCode::resource,
       "{}: another run is writing to this folder: wait for its end, or stop it", out_);
}

void StepsLog::write(const std::string& line) {
  if (!write_at(file_, line, bytes_)) {
    const int error = errno;
    // Where this fails too the next line goes over the rest, and a resumed run cuts it off.
    [[maybe_unused]] const int ignored = ::ftruncate(file_, static_cast<off_t>(bytes_));
    errno = error;
    refuse("write");
  }
  bytes_ += line.size();
}

std::string StepsLog::read(std::uint64_t begin, std::uint64_t end) const {
  std::string text(end - begin, '\0');
  for (std::size_t got = 0; got < text.size();) {
    const ssize_t size =
        ::pread(file_, text.data() + got, text.size() - got, static_cast<off_t>(begin + got));
    if (size <= 0) refuse("read");
    got += static_cast<std::size_t>(size);
  }
  return text;
}

void StepsLog::refuse(const char* what) const {
  fail(ErrorCode::io, "{}: cannot {} the file: {}", path_, what, std::strerror(errno));
}

}  // namespace headrace
