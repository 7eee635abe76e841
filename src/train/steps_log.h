// OUT/steps.jsonl: a line for each completed step, with a hash of the rows it was trained on. Only
// appended to: a run that goes on from a checkpoint says from which byte it descends
// (docs/files.md), so the rows behind any weights can be told, whatever was killed in between. One
// process at a time writes it, and that guards OUT. No libtorch here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "headrace/sha256.h"
#include "headrace/text_source.h"

namespace headrace {

struct StepLog;

// Feeds the hash with what a step is trained on: the rows' lengths, tokens and anchors.
void add_rows(Sha256& hash, const TokenBatch& batch);

class StepsLog {
 public:
  // Creates nothing before begin() or go_on_in_place().
  explicit StepsLog(const std::string& out);
  ~StepsLog();
  StepsLog(const StepsLog&) = delete;
  StepsLog& operator=(const StepsLog&) = delete;

  // From here on OUT is this run's, and what was found in it before may have changed.
  // Error(resource) where another process holds it. Once is enough.
  void lock();

  // One of these comes before the first append(), and before anything else is written to OUT. Each
  // locks.
  //
  // A run that begins in OUT. `after`: its checkpoint, where that lies elsewhere. Error(resource)
  // where OUT holds a checkpoint: of a run that came between the caller's look and the lock.
  void begin(std::optional<std::uint64_t> after = {});
  // The run goes on after `step`, whose checkpoint lies in OUT and keeps what sync() gave. False
  // where the log does not hold that step; what is appended then descends from nothing.
  bool go_on_in_place(std::uint64_t step, std::uint64_t bytes);

  // Error(io) names the file; what is left of the line then, if anything, is written over.
  void append(const StepLog& step);
  // Makes the lines durable. Returns their bytes, for the checkpoint. Once it has failed it always
  // fails: the system forgets what it could not write, and says so once.
  std::uint64_t sync();

 private:
  void write(const std::string& line);
  std::string read(std::uint64_t begin, std::uint64_t end) const;
  [[noreturn]] void refuse(const char* what) const;

  std::string out_, path_;
  int file_ = -1;
  int sync_error_ = 0;       // errno of the first flush that failed
  std::uint64_t bytes_ = 0;  // of whole lines: where the next one goes
  std::string descent_;      // goes before the first line
};

}  // namespace headrace
