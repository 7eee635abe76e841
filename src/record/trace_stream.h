// Writes what a store holds to a file while the run goes on. Layer: record, private.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "record/span_store.h"
#include "record/trace_file.h"

namespace headrace {

class TraceStream {
 public:
  // The store must outlive it. Error(io) where the file cannot be created.
  TraceStream(const std::string& path, const TraceHeader& header, const SpanStore& store);

  // Once: the rest, and the end of the file. Error(io) names what is missing and why.
  void finish();

 private:
  void run(const std::stop_token& stop);
  bool flush();
  bool flush(const SpanRing& ring, std::uint64_t& next);

  const std::string path_;
  const SpanStore& store_;
  TraceFile file_;
  std::vector<std::uint64_t> next_;  // of each ring, in the store's order: what to write next
  std::uint64_t dropped_ = 0, dropped_in_file_ = 0;
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace headrace
