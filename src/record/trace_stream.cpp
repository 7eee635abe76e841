#include "record/trace_stream.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "headrace/error.h"

namespace headrace {
namespace {

constexpr std::chrono::milliseconds kPeriod(250);  // a second is promised
constexpr std::uint64_t kSpansAWrite = 4096;       // about 1 MB of text

}  // namespace

TraceStream::TraceStream(const std::string& path, const TraceHeader& header, const SpanStore& store)
    : path_(path),
      store_(store),
      file_(path, header),
      dropped_(header.dropped),
      dropped_in_file_(header.dropped),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void TraceStream::finish() {
  thread_.request_stop();
  thread_.join();
  const bool whole = flush();
  if (whole && file_.end()) return;
  std::uint64_t missing = 0;  // and not counted in the header
  const std::vector<const SpanRing*> rings = store_.rings();
  for (std::size_t i = 0; !whole && i < next_.size(); ++i)
    missing += rings[i]->added() - std::max(next_[i], rings[i]->dropped());
  if (missing == 0)
    fail(ErrorCode::io, "{}: the trace cannot be flushed or ended: {}", path_, file_.problem());
  fail(ErrorCode::io, "{}: the trace is cut off, its last {} spans are missing: {}", path_, missing,
       file_.problem());
}

void TraceStream::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, stop, kPeriod, [&] { return stop.stop_requested(); })) {
    try {
      flush();
    } catch (const std::bad_alloc&) {  // the next turn tries again
    }
  }
}

// False where the file takes no more at the moment: what it lacks stays in the rings while it can,
// and the header, which needs no room, counts what they have lost.
bool TraceStream::flush() {
  const std::vector<const SpanRing*> rings = store_.rings();
  next_.resize(rings.size(), 0);
  bool whole = true;
  for (std::size_t i = 0; i < rings.size(); ++i) whole &= flush(*rings[i], next_[i]);
  if (dropped_ != dropped_in_file_ && !file_.set_dropped(dropped_)) return false;
  dropped_in_file_ = dropped_;
  return whole;
}

// Up to what was there when it began, or a fast writer would keep it here.
bool TraceStream::flush(const SpanRing& ring, std::uint64_t& next) {
  for (const std::uint64_t end = ring.added(); next < end;) {
    const SpanRing::Part part = ring.read(next, kSpansAWrite);
    dropped_ += part.first - std::exchange(next, part.first);
    if (!file_.append(store_.to_spans(part.records))) return false;
    next = part.end();
  }
  return true;
}

}  // namespace headrace
