// What users of other input pipelines ran into, by project and number of the report. Those that the
// properties of prefetch_test.cpp cover at every depth and number of workers: prefetched batches
// thrown away on resume (torchdata#1520), fewer batches with more workers (grain#1129), batches in
// the pipeline lost at the end (torchrec PR 1050), a second resume that shifts (KempnerForge#57),
// the source ahead by workers x depth (lhotse#785).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <semaphore>
#include <set>
#include <thread>

#include "flow/prefetch_harness.h"
#include "flow/shortage.h"
#include "headrace/prefetch.h"
#include "headrace/thread.h"

namespace headrace {
namespace {

using testing::Number;
using testing::numbers;
using testing::position_after;

// DALI#3861: the error of batch N was seen at batch N + 1, or with a batch still to come.
TEST(PrefetchField, AnErrorNamesItsOwnBatch) {
  for (std::uint64_t workers = 1; workers <= 4; ++workers) {
    Prefetch<Number> batches(numbers(0, 20, 5), {.depth = 4, .workers = workers, .nice = 0});
    std::uint64_t served = 0;
    try {
      for (bool more = batches.prime(); more; more = batches.next()) ++served;
    } catch (const Error& error) {
      EXPECT_EQ(fmt::format("shard {} is gone", served), error.what());
    }
    EXPECT_EQ(served, 5u);
  }
}

// Two batches fail in two workers, the later one first: the error is that of the earlier one.
TEST(PrefetchField, TheErrorIsThatOfTheFirstBatch) {
  std::binary_semaphore later_failed(0);
  Prefetch<Number> batches({[made = std::uint64_t{0}](Number& number) mutable {
                              number.value = made++;
                              return true;
                            },
                            [&](Number& number) {
                              if (number.value == 1) {
                                later_failed.release();
                                throw std::runtime_error("later");
                              }
                              later_failed.acquire();
                              throw std::runtime_error("earlier");
                            }},
                           {.depth = 2, .workers = 2});
  try {
    batches.prime();
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "earlier");
  }
}

// DALI#2551, torchrec PR 1778, streaming#617: fewer items than the queue is deep, or than there are
// workers, hang; so does asking again behind the end.
TEST(PrefetchField, FewerBatchesThanDepthOrWorkersEnd) {
  for (std::uint64_t count = 0; count <= 3; ++count)
    EXPECT_EQ(testing::serves_each_once<Prefetch<Number>>(count, {.depth = 64, .workers = 8}), "");
}

// torchrec PR 4503: the pipeline was filled again each step, and 13 batches drawn from 12.
TEST(PrefetchField, TheSourceIsNeverAskedAgainAfterItsEnd) {
  for (std::uint64_t workers = 0; workers <= 4; ++workers) {
    std::atomic<int> given = 0, refused = 0;
    {
      Prefetch<Number> batches([&](Number&) { return given < 12 ? ++given : (++refused, 0); },
                               {.depth = 4, .workers = workers, .nice = 0});
      for (bool more = batches.prime(); more; more = batches.next()) {
      }
      EXPECT_FALSE(batches.next());
    }
    EXPECT_EQ(given, 12);
    EXPECT_EQ(refused, 1);
  }
}

// A producer whose queue is full when it fails dropped its error after a second, and the trainer
// waited for ever; another logged it and went on polling. Here: seen, however late, and again.
TEST(PrefetchField, AnErrorBehindAFullQueueIsKept) {
  std::binary_semaphore failed(0);
  Prefetch<Number> batches(
      [&, made = 0](Number&) mutable {
        if (++made <= 2) return true;
        failed.release();
        throw std::runtime_error("gone");
      },
      {.depth = 3});
  failed.acquire();
  ASSERT_TRUE(batches.prime());
  ASSERT_TRUE(batches.next());
  for (int again = 0; again < 3; ++again) EXPECT_THROW(batches.next(), std::runtime_error);
}

// pytorch#1355, #24927: a worker that died otherwise than by an exception of the library left the
// main thread waiting.
TEST(PrefetchField, WhateverIsThrownArrives) {
  Prefetch<Number> batches([](Number&) -> bool { throw 42; });
  EXPECT_THROW(batches.prime(), int);
}

// A fetch of the reserve that fails left the offsets of a batch that was never used, and at the
// end the reserve still held the last batch, whose look-ups were started twice.
TEST(PrefetchField, AFailingReserveCommitsNothingAndIsNotServed) {
  for (const bool fails : {true, false}) {
    Prefetch<Number> batches(numbers(0, fails ? 4 : 3, fails ? 3 : UINT64_MAX),
                             {.start = position_after(0)});
    std::set<std::uint64_t> looked_up = {0};
    ASSERT_TRUE(batches.prime());
    EXPECT_EQ(batches.offsets_to_commit(), position_after(0));
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Number* reserve = batches.reserve();
      EXPECT_EQ(reserve != nullptr, i < 2);
      EXPECT_TRUE(reserve == nullptr || looked_up.insert(reserve->value).second);
      EXPECT_EQ(batches.offsets_to_commit(), position_after(i));
      if (fails && i == 2)
        EXPECT_THROW(batches.next(), Error);
      else
        EXPECT_EQ(batches.next(), i < 2);
    }
    EXPECT_EQ(batches.offsets_to_commit(), position_after(3));
    EXPECT_EQ(looked_up.size(), 3u);
  }
}

// moonbitlang/async#448: an item was delivered, then its reader cancelled, and the item lost.
TEST(PrefetchField, ACancelledWaitLosesNothing) {
  std::counting_semaphore<> go_on(0);
  Prefetch<Number> batches([&, made = std::uint64_t{0}](Number& number) mutable {
    go_on.acquire();
    number.value = made++;
    return made <= 2;
  });
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_THROW(batches.prime(stopped.get_token()), Error);
  EXPECT_THROW(batches.next(stopped.get_token()), Error);
  go_on.release();
  ASSERT_TRUE(batches.next());
  EXPECT_EQ(batches.current().value, 0u);
  EXPECT_THROW(batches.reserve(stopped.get_token()), Error);
  EXPECT_EQ(batches.current().value, 0u) << "waiting for the reserve leaves current alone";
  go_on.release(2);
  ASSERT_TRUE(batches.next());
  EXPECT_EQ(batches.current().value, 1u);
  EXPECT_FALSE(batches.next());
}

// The same with the stop at any moment of the hand-over.
TEST(PrefetchField, StopsThatRaceWithDeliveryLoseNothing) {
  constexpr std::uint64_t kCount = 300;
  Prefetch<Number> batches(numbers(0, kCount), {.depth = 2, .workers = 2, .nice = 0});
  std::uint64_t served = 0;
  bool primed = false;
  while (true) {
    std::stop_source source;
    std::jthread stopper([&] { source.request_stop(); });
    try {
      const bool more = std::exchange(primed, true) ? batches.next(source.get_token())
                                                    : batches.prime(source.get_token());
      if (!more) break;
      EXPECT_EQ(batches.current().value, served++);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::cancelled);
    }
  }
  EXPECT_EQ(served, kCount);
}

// Without workers the source is called in the consumer's thread, and not at all once stopped.
TEST(PrefetchField, AStoppedConsumerCallsNoSource) {
  int calls = 0;
  Prefetch<Number> batches([&](Number&) { return ++calls <= 2; }, {.workers = 0});
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_THROW(batches.prime(stopped.get_token()), Error);
  EXPECT_THROW(batches.next(stopped.get_token()), Error);
  EXPECT_EQ(calls, 0);
  ASSERT_TRUE(batches.next());
  EXPECT_THROW(batches.reserve(stopped.get_token()), Error);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(batches.next());
  EXPECT_FALSE(batches.next());
  EXPECT_FALSE(batches.next(stopped.get_token())) << "the end is known by now";
}

// Whichever thread or allocation is the one too many: the constructor throws, and those threads
// that it had started end.
TEST(PrefetchField, AConstructorThatFailsEnds) {
  const PrefetchOptions options{.depth = 4, .workers = 4};
  for (long threads = 0; threads < 4; ++threads) {
    testing::threads_left = threads;
    EXPECT_THROW(Prefetch<Number>(numbers(0, 9), options), Error) << threads;
  }
  testing::threads_left = -1;
  bool failed = true;
  for (long budget = 0; failed; ++budget) {
    auto source = numbers(0, 9);
    auto copy = options;
    testing::allocations_left = budget;
    try {
      const Prefetch<Number> batches(std::move(source), std::move(copy));
      failed = false;
    } catch (const std::bad_alloc&) {
      ASSERT_LT(budget, 1000);
    }
    testing::allocations_left = -1;
  }
}

// A source that waits for data that never comes (the end of a log, a broker) is stopped.
TEST(PrefetchField, ASourceThatWaitsIsStopped) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::binary_semaphore waits(0);
  Prefetch<Number> batches([&](Number&, const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    waits.release();
    return never.wait(lock, stop, [] { return false; });
  });
  waits.acquire();
}

// A stage that waits for a batch which takes long to make is not stuck: a watchdog sees its wait begin
// anew.
TEST(PrefetchField, ALongBatchIsNoDeadlock) {
  std::counting_semaphore<> made(0);
  Prefetch<Number> batches([&](Number&) {
    made.acquire();
    return true;
  });
  ThreadWait wait;
  std::jthread consumer([&] {
    wait.install();
    batches.prime();
  });
  const auto begun = [&] { return wait.snapshot().changes; };
  while (begun() < 5) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  made.release();
  consumer.join();
  made.release();  // for the batch that is made ahead: the destructor waits for it
}

// grain#851 took ten times a batch's time to hand it over. A batch here is not even movable: it
// stays where it was made.
TEST(PrefetchField, BatchesAreHandedOverInPlace) {
  struct Pinned {
    Pinned() = default;
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    const Pinned* made_at = nullptr;
    Position position;
  };
  Prefetch<Pinned> batches({[made = 0](Pinned&) mutable { return ++made <= 9; },
                            [](Pinned& batch) { batch.made_at = &batch; }},
                           {.depth = 3, .workers = 2});
  for (bool more = batches.prime(); more; more = batches.next())
    EXPECT_EQ(batches.current().made_at, &batches.current());
}

// A loop that moves the batch away does not move its position with it.
TEST(PrefetchField, AMovedBatchIsCommittedAllTheSame) {
  Prefetch<Number> batches(numbers(0, 3));
  std::vector<Number> kept;
  for (bool more = batches.prime(); more; more = batches.next())
    kept.push_back(std::move(batches.current()));
  EXPECT_EQ(batches.offsets_to_commit(), position_after(3));
}

// grain#1021, #1196: iterators that were abandoned kept the process from ending, also after an
// exception. The child's status is that of its main().
TEST(PrefetchFieldDeathTest, AProcessThatAbandonsOneEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    const auto abandoned =
        std::make_unique<Prefetch<Number>>(numbers(0, UINT64_MAX), PrefetchOptions{.workers = 2});
    try {
      Prefetch<Number> batches(numbers(0, UINT64_MAX, 5), {.depth = 4, .workers = 4});
      for (bool more = batches.prime(); more; more = batches.next()) {
      }
    } catch (const Error&) {
      abandoned->prime();
    }
  };
  EXPECT_EXIT((run(), std::exit(7)), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace headrace
