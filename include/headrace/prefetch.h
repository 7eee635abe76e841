// The double buffer in front of a loop, of any depth: background threads make batches ahead, and
// the position of a batch becomes committable only when the step that used it has completed.
// Layer: flow.
//
//   Prefetch<TokenBatch> batches([&](TokenBatch& batch) { return source.next(batch); });
//   for (bool more = batches.prime(); more; more = batches.next()) train_on(batches.current());
//
//   current             the batch being used
//   reserve             the batch that follows it, to start its copies or look-ups early
//   exhausted           the source has ended and no batch follows current
//   offsets_to_commit   the position of the last COMPLETED batch: what a checkpoint may store
//   next()              completes current and moves on
//
// Two textbook bugs, each a test: a reserve that is never cleared serves the last batch for ever;
// offsets read from the producer instead of the completed batch lose `queue + hand + future`
// batches on resume.
//
// Contract
//   - Each batch of the source is served once. Order::sequence: in the order in which the source's
//     claim() gave them, whatever the number of workers. Order::ready: as they become ready.
//   - At most `depth` batches are claimed and not yet committable, current and those being made
//     included, so no more of them exist. With depth 1 nothing is made ahead.
//   - offsets_to_commit() is the position of the last batch of which it and all batches claimed
//     before it have completed. In Order::sequence that is the last completed one, and a resume
//     is exact. In Order::ready a resume serves up to depth - 1 completed batches again and loses
//     none.
//   - An error of the source is thrown by the prime() or next() that reaches its position, after
//     the batches claimed before it, and by every later next(). Of several the one with the first
//     position counts. current() is then gone and its position committed.
//   - One consumer thread. It may move the batch out of current().
//   - May be destroyed at any time: it stops the source's calls in progress as source.h says, waits
//     for them, and starts no other.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "headrace/channel.h"
#include "headrace/plan.h"
#include "headrace/position.h"
#include "headrace/source.h"

namespace headrace {

struct PrefetchOptions {
  std::string name = "prefetch";  // of the threads and in messages
  std::uint64_t depth = 2;        // >= 1
  std::uint64_t workers = 1;      // threads, at most depth of them; 0: batches are made when the
                                  // consumer asks for them, in its own thread
  Order order = Order::sequence;
  int nice = 10;   // of the threads
  Position start;  // where the source stands: committed before the first batch completes
};

template <Positioned Batch>
class Prefetch {
 public:
  // Starts to produce at once. Error(bad_input) where depth is 0, Error(resource) where the system
  // has no thread left.
  explicit Prefetch(Source<Batch> source, PrefetchOptions options = {});
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // Before the first batch: waits until it is ready, while others are in flight, or until the
  // source's end or error is known. Returns whether there is a current batch.
  bool prime(const std::stop_token& stop = {});
  // Completes current, so that its position is committable, and waits for the following batch,
  // which becomes current. Returns whether there is one.
  //
  // Both throw Error(cancelled) where `stop` ends the wait. Nothing is lost: a later next() serves
  // the batch that was waited for. With 0 workers `stop` is looked at before the source is called,
  // and does not interrupt the call.
  bool next(const std::stop_token& stop = {});

  Batch& current();  // Error(internal) before prime() and after the end
  // Waits for the batch that will follow current; nullptr where none does, an error comes first, or
  // depth is 1. Error(cancelled) as in next().
  Batch* reserve(const std::stop_token& stop = {});
  // False also while the source is not yet known to have ended; reserve() waits for that.
  bool exhausted() const;
  std::uint64_t ready() const;  // batches that wait to become current
  const Position& offsets_to_commit() const { return committed_; }

 private:
  struct Item {
    std::uint64_t sequence = 0;  // in the order of claims
    Batch batch;
    Position position;  // the batch's, out of the consumer's reach
  };

  void work();
  bool step();
  void arrive(std::unique_ptr<Item> item);
  void end(std::uint64_t sequence, std::exception_ptr error);
  void pass_on();
  bool fill_reserve(const std::stop_token& stop);
  [[noreturn]] void stopped() const;
  bool advance(const std::stop_token& stop);

  const Source<Batch> source_;
  const PrefetchOptions options_;
  std::stop_source stop_;
  // The right to hold one batch, `depth` times: taken before a claim, given back on commit. So
  // ready_, which is as deep, never makes a worker wait.
  BoundedChannel<std::monostate> permits_;
  BoundedChannel<std::unique_ptr<Item>> ready_;

  std::mutex claims_;  // one claim at a time; taken before arrivals_
  std::uint64_t claimed_ = 0;
  std::atomic<bool> over_ = false;  // nothing more is claimed

  mutable std::mutex arrivals_;
  std::map<std::uint64_t, std::unique_ptr<Item>> arrived_;  // before their turn; null: passed on
  std::uint64_t passed_ = 0;                                // all before it went into ready_
  std::uint64_t end_ = UINT64_MAX;                          // the stream ends before this one,
  std::exception_ptr error_;                                // with this error or with none

  // The consumer's.
  bool primed_ = false;
  std::unique_ptr<Item> current_, reserve_;
  std::map<std::uint64_t, Position> completed_;  // not committable yet
  std::uint64_t committable_ = 0;                // all before it are
  Position committed_;

  std::vector<std::jthread> threads_;  // last: joined first
};

}  // namespace headrace

#include "headrace/prefetch-inl.h"
