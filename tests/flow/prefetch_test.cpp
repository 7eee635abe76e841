#include "headrace/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <semaphore>
#include <tuple>

#include "flow/prefetch_harness.h"
#include "flow/textbook_prefetch.h"
#include "threads.h"

namespace headrace {
namespace {

using testing::Bug;
using testing::error_in_its_place;
using testing::Number;
using testing::numbers;
using testing::resumes_without_loss;
using testing::serves_each_once;
using testing::Textbook;

constexpr const char* kRight = "";

class PrefetchOf : public ::testing::TestWithParam<std::tuple<std::uint64_t, std::uint64_t>> {
 protected:
  const std::uint64_t depth = std::get<0>(GetParam()), workers = std::get<1>(GetParam());
  const PrefetchOptions options{.depth = depth, .workers = workers, .nice = 0};
};
INSTANTIATE_TEST_SUITE_P(DepthsAndWorkers, PrefetchOf,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(0, 1, 2, 3, 4)),
                         [](const auto& param) {
                           return fmt::format("Depth{}Workers{}", std::get<0>(param.param),
                                              std::get<1>(param.param));
                         });

TEST_P(PrefetchOf, ServesEachBatchOnce) {
  for (const std::uint64_t count : {0, 1, 2, 3, 4, 5, 6, 12})
    EXPECT_EQ(serves_each_once<Prefetch<Number>>(count, options), kRight) << count;
}

TEST_P(PrefetchOf, ResumesWithoutLoss) {
  for (const std::uint64_t used : {0, 1, 2, 5, 10})
    EXPECT_EQ(resumes_without_loss<Prefetch<Number>>({used}, options), kRight) << used;
  EXPECT_EQ(resumes_without_loss<Prefetch<Number>>({5, 4, 3}, options), kRight);
  EXPECT_EQ(resumes_without_loss<Prefetch<Number>>({1, 0, 2, 0, 3}, options), kRight);
}

TEST_P(PrefetchOf, AnErrorArrivesInPlaceOfItsBatch) {
  for (const std::uint64_t good : {0, 1, 2, 3, 4, 8})
    EXPECT_EQ(error_in_its_place<Prefetch<Number>>(good, options), kRight) << good;
}

// The checks are worth something only if they see the bugs, at every depth and number of workers.
template <Bug bug>
std::string bugs_seen(const PrefetchOptions& options) {
  std::string seen;
  for (std::uint64_t n = 0; n <= 8; ++n) {
    if (serves_each_once<Textbook<bug>>(n, options) != kRight) seen += 's';
    if (resumes_without_loss<Textbook<bug>>({n}, options) != kRight) seen += 'r';
    if (error_in_its_place<Textbook<bug>>(n, options) != kRight) seen += 'e';
  }
  return seen;
}

TEST_P(PrefetchOf, TheTextbookBugsAreSeen) {
  EXPECT_EQ(bugs_seen<Bug::none>(options), "");
  EXPECT_NE(bugs_seen<Bug::reserve_not_cleared>(options).find('s'), std::string::npos);
  EXPECT_NE(bugs_seen<Bug::offsets_of_the_producer>(options).find('r'), std::string::npos);
  EXPECT_NE(bugs_seen<Bug::offsets_at_fetch>(options).find('r'), std::string::npos);
  EXPECT_NE(bugs_seen<Bug::tail_dropped>(options).find('s'), std::string::npos);
  EXPECT_NE(bugs_seen<Bug::error_at_once>(options).find('e'), std::string::npos);
  EXPECT_EQ(bugs_seen<Bug::as_they_finish>(options).find('s') != std::string::npos, workers > 1);
}

// At step 0 batch 0 is ready and batch 1 in flight: prime() does not wait for it.
TEST_P(PrefetchOf, PrimesWithOneReadyAndOneInFlight) {
  std::binary_semaphore started(0), primed(0);
  std::atomic<std::uint64_t> claimed = 0;
  Prefetch<Number> batches({[&](Number& number) {
                              number.value = claimed++;
                              return claimed <= 2;
                            },
                            [&](Number& number) {
                              if (number.value == 0) return;
                              started.release();
                              primed.acquire();
                            }},
                           {.depth = std::max<std::uint64_t>(2, depth),
                            .workers = std::max<std::uint64_t>(1, workers),
                            .nice = 0});
  ASSERT_TRUE(batches.prime());
  EXPECT_EQ(batches.current().value, 0u);
  started.acquire();  // batch 1 is being made while batch 0 is used
  EXPECT_EQ(batches.ready(), 0u);
  primed.release();
  EXPECT_TRUE(batches.next());
  EXPECT_FALSE(batches.next());
}

// Batches that are ready early wait for their turn. (The pause only gives a wrong order the time to
// show.)
TEST_P(PrefetchOf, AreServedInOrderWhicheverIsReadyFirst) {
  const std::uint64_t ahead = std::max<std::uint64_t>(2, depth);
  std::counting_semaphore<> others(0), first(0);
  Prefetch<Number> batches({[made = std::uint64_t{0}](Number& number) mutable {
                              number.value = made++;
                              return made <= 9;
                            },
                            [&](Number& number) {
                              if (number.value == 0)
                                first.acquire();
                              else
                                others.release();
                            }},
                           {.depth = ahead, .workers = std::max<std::uint64_t>(2, workers)});
  const std::jthread opener([&] {
    for (std::uint64_t i = 1; i < ahead; ++i) others.acquire();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    first.release();
  });
  std::uint64_t served = 0;
  for (bool more = batches.prime(); more; more = batches.next())
    EXPECT_EQ(batches.current().value, served++);
  EXPECT_EQ(served, 9u);
}

// A batch that counts how many of them there are.
struct Counted {
  static inline std::atomic<std::int64_t> alive, most;
  Counted() {
    const std::int64_t now = ++alive;
    for (std::int64_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
  }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  Position position;
};

TEST_P(PrefetchOf, NoMoreThanDepthBatchesExist) {
  for (const Order order : {Order::sequence, Order::ready}) {
    Counted::most = 0;
    {
      Prefetch<Counted> batches([made = 0](Counted&) mutable { return ++made <= 50; },
                                {.depth = depth, .workers = workers, .order = order, .nice = 0});
      for (bool more = batches.prime(); more; more = batches.next()) batches.reserve();
    }
    EXPECT_LE(Counted::most, static_cast<std::int64_t>(depth));
    EXPECT_GE(Counted::most, depth > 1 ? 2 : 1);
    EXPECT_EQ(Counted::alive, 0);
  }
}

// The reserve is the batch that becomes current next, at the same address; none behind the last.
TEST_P(PrefetchOf, TheReserveIsTheBatchThatFollows) {
  Prefetch<Number> batches(numbers(0, 9), options);
  EXPECT_EQ(batches.reserve(), nullptr);
  ASSERT_TRUE(batches.prime());
  for (std::uint64_t i = 0; i < 9; ++i) {
    const Number* reserve = batches.reserve();
    EXPECT_EQ(reserve != nullptr, depth > 1 && i < 8);
    EXPECT_EQ(batches.reserve(), reserve);
    EXPECT_EQ(batches.current().value, i);
    EXPECT_EQ(batches.exhausted(), depth > 1 && i == 8);
    ASSERT_EQ(batches.next(), i < 8);
    if (reserve != nullptr) {
      EXPECT_EQ(&batches.current(), reserve);
    }
  }
  EXPECT_EQ(batches.reserve(), nullptr);
}

TEST_P(PrefetchOf, MayBeAbandonedAtAnyTimeWithoutLeakingThreads) {
  const std::size_t before = testing::threads_at_rest();
  for (int taken = -1; taken < 8; ++taken) {
    for (const std::uint64_t broken : {UINT64_MAX, std::uint64_t{3}}) {
      try {
        Prefetch<Number> batches(numbers(0, 6, broken), options);
        if (taken >= 0) batches.prime();
        for (int i = 0; i < taken; ++i) batches.next();
        if (taken == 2) throw std::runtime_error("of the loop");
      } catch (const std::runtime_error&) {  // an Error is one
      }
    }
  }
  EXPECT_TRUE(testing::threads_fall_to(before));
}

TEST(Prefetch, RefusesMisuse) {
  EXPECT_THROW(Prefetch<Number>(numbers(0, 1), {.depth = 0}), Error);
  Prefetch<Number> batches(numbers(0, 1));
  EXPECT_THROW(batches.next(), Error);
  EXPECT_THROW(batches.current(), Error);
  EXPECT_TRUE(batches.prime());
  EXPECT_THROW(batches.prime(), Error);
}

// A source that cannot be split is called by one worker at a time, and its order is kept.
TEST(Prefetch, APlainFunctionServesSeveralWorkers) {
  int made = 0;
  std::atomic<int> inside = 0;
  Prefetch<Number> batches(
      [&](Number& number) {
        EXPECT_EQ(++inside, 1);
        number.value = static_cast<std::uint64_t>(made++);
        --inside;
        return made <= 200;
      },
      {.depth = 4, .workers = 4, .nice = 0});
  std::uint64_t served = 0;
  for (bool more = batches.prime(); more; more = batches.next())
    EXPECT_EQ(batches.current().value, served++);
  EXPECT_EQ(served, 200u);
}

}  // namespace
}  // namespace headrace
