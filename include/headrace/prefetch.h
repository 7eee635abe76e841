// The double buffer in front of a loop, of any depth: a background thread makes batches ahead, and
// the position of a batch becomes committable only when the step that used it has completed.
// Layer: flow.
//
//   Prefetch<TokenBatch> batches([&](TokenBatch& batch) { return source.next(batch); });
//   for (bool more = batches.prime(); more; more = batches.next()) train_on(batches.current());
//
//   current             the batch being used
//   reserve             the batches ready behind it: depth - 1 of them once primed
//   exhausted           the source has ended and no batch follows current
//   offsets_to_commit   the position of the last COMPLETED batch: what a checkpoint may store
//   next()              completes current and moves on
//
// Two textbook bugs, each a test: a reserve that is never cleared serves the last batch for ever;
// offsets read from the producer instead of the completed batch lose `queue + hand + future`
// batches on resume.
//
// Contract
//   - Batches come in the source's order, each once. At most `depth` of them exist at a time,
//     current and the one being made included; with depth 1 nothing is made ahead.
//   - An error of the source is thrown by the prime() or next() that reaches its position, after
//     the good batches, and by every later next(). current() is then gone and its position
//     committed.
//   - One consumer thread. The source runs in one background thread of lower priority, one call
//     at a time.
//   - May be destroyed at any time: it waits for the source's call in progress, and starts no
//     other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>

#include "headrace/channel.h"
#include "headrace/position.h"

namespace headrace {

struct PrefetchOptions {
  std::string name = "prefetch";  // of the thread and in messages
  std::uint64_t depth = 2;        // >= 1
  int nice = 10;                  // of the background thread
  Position start;  // where the source stands: committed before the first batch completes
};

// Batch: default constructible, movable, with a member `Position position` (just after the batch).
template <typename Batch>
class Prefetch {
 public:
  // Fills the batch and returns true, or returns false where there is none left.
  using Source = std::function<bool(Batch&)>;

  // Starts to produce at once. Error(bad_input) where depth is 0.
  explicit Prefetch(Source source, PrefetchOptions options = {});
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // Before the first batch: waits until current and reserve are full, or the source's end or error
  // is known. Returns whether there is a current batch.
  bool prime();
  // Completes current, so that its position is committable, and waits for the following batch,
  // which becomes current. Returns whether there is one.
  bool next();

  Batch& current();  // Error(internal) before prime() and after the end
  std::uint64_t reserve() const;
  bool exhausted() const;  // false also while the source is not yet known to have ended
  const Position& offsets_to_commit() const { return committed_; }

 private:
  void produce(std::stop_token stop);
  bool advance();

  const Source source_;
  const PrefetchOptions options_;
  // A token is the right to hold one batch: the producer takes one before it makes a batch, next()
  // gives it back. So the channel, as deep as there are tokens, never blocks the producer.
  std::counting_semaphore<> tokens_;
  std::binary_semaphore primed_{0};  // released once, when the reserve is full or the stream over
  BoundedChannel<Batch> ready_;
  std::optional<Batch> current_;
  Position committed_;
  bool started_ = false;
  std::jthread thread_;  // last: joined first
};

}  // namespace headrace

#include "headrace/prefetch-inl.h"
