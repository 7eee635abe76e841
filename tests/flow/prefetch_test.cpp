#include "headrace/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

namespace headrace {
namespace {

struct Batch {
  std::uint64_t value = 0;
  Position position;
};

// `count` batches, numbered; each position stands just after its batch.
struct Numbers {
  std::uint64_t next = 0, count = 0;
  bool operator()(Batch& batch) {
    if (next == count) return false;
    batch.value = next++;
    batch.position.batch = next;
    return true;
  }
};

// The double buffer as textbooks get it wrong, with either bug in place; the same interface.
enum class Bug { none, reserve_not_cleared, offsets_of_the_producer };
template <Bug bug>
class Textbook {
 public:
  Textbook(Numbers source, PrefetchOptions options)
      : source_(source), depth_(options.depth), committed_(options.start) {}
  bool prime() {
    while (reserve_.size() < depth_ && fetch()) {
    }
    return advance();
  }
  bool next() {
    if (has_current_) committed_ = current_.position;
    return advance();
  }
  Batch& current() { return current_; }
  bool exhausted() const { return ended_ && reserve_.empty(); }
  Position offsets_to_commit() const {
    if (bug != Bug::offsets_of_the_producer) return committed_;
    Position position;
    position.batch = source_.next;
    return position;
  }

 private:
  bool fetch() {
    Batch batch;
    ended_ = !source_(batch);
    if (!ended_) reserve_.push_back(batch);
    return !ended_;
  }
  // What is served stays in the reserve until the batch that takes its place is there.
  bool advance() {
    has_current_ = !reserve_.empty();
    if (!has_current_) return false;
    current_ = reserve_.front();
    fetch();
    const bool keeps = bug == Bug::reserve_not_cleared && ended_ && reserve_.size() == 1;
    if (!keeps) reserve_.erase(reserve_.begin());
    return true;
  }
  Numbers source_;
  std::uint64_t depth_;
  std::vector<Batch> reserve_;
  Batch current_;
  bool has_current_ = false;
  Position committed_;
  bool ended_ = false;
};

// N batches in, N served, each once and in order, and the end stays the end.
template <typename Buffer>
bool serves_each_batch_once(std::uint64_t count, std::uint64_t depth) {
  Buffer buffer(Numbers{0, count}, {.depth = depth});
  std::uint64_t served = 0;
  for (bool more = buffer.prime(); more; more = buffer.next())
    if (served > count || buffer.current().value != served++) return false;
  return served == count && buffer.exhausted() && !buffer.next() && !buffer.next() &&
         buffer.offsets_to_commit().batch == count;
}

// Stop after `used` completed batches while another is current, resume from what could be
// committed: the rest follows without a gap or a repetition.
template <typename Buffer>
bool resumes_without_loss(std::uint64_t used, std::uint64_t depth) {
  constexpr std::uint64_t kCount = 12;
  Position committed;
  {
    Buffer buffer(Numbers{0, kCount}, {.depth = depth});
    bool more = buffer.prime();
    if (buffer.offsets_to_commit().batch != 0) return false;
    for (std::uint64_t i = 0; i < used; ++i) more = buffer.next();
    if (!more) return false;
    committed = buffer.offsets_to_commit();
  }
  Buffer buffer(Numbers{committed.batch, kCount}, {.depth = depth, .start = committed});
  std::uint64_t expected = used;
  for (bool more = buffer.prime(); more; more = buffer.next())
    if (buffer.current().value != expected++) return false;
  return expected == kCount;
}

class PrefetchOfDepth : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Depths, PrefetchOfDepth, testing::Values(1, 2, 3, 4));

TEST_P(PrefetchOfDepth, ServesEachBatchOnce) {
  for (std::uint64_t count = 0; count <= 9; ++count)
    EXPECT_TRUE(serves_each_batch_once<Prefetch<Batch>>(count, GetParam())) << count;
}

TEST_P(PrefetchOfDepth, ResumesWithoutLoss) {
  for (std::uint64_t used = 0; used <= 10; ++used)
    EXPECT_TRUE(resumes_without_loss<Prefetch<Batch>>(used, GetParam())) << used;
}

// The checks above are worth something only if they see the two bugs.
TEST_P(PrefetchOfDepth, TheTextbookBugsWouldBeSeen) {
  EXPECT_TRUE(serves_each_batch_once<Textbook<Bug::none>>(5, GetParam()));
  EXPECT_TRUE(resumes_without_loss<Textbook<Bug::none>>(5, GetParam()));
  EXPECT_FALSE(serves_each_batch_once<Textbook<Bug::reserve_not_cleared>>(5, GetParam()));
  EXPECT_FALSE(resumes_without_loss<Textbook<Bug::offsets_of_the_producer>>(5, GetParam()));
}

TEST_P(PrefetchOfDepth, IsPrimedAndNeverHoldsMoreThanDepth) {
  const std::uint64_t depth = GetParam();
  std::atomic<std::uint64_t> made = 0;
  Prefetch<Batch> batches(
      [&](Batch& batch) {
        batch.position.batch = ++made;
        return true;
      },
      {.depth = depth});
  ASSERT_TRUE(batches.prime());
  EXPECT_EQ(batches.reserve(), depth - 1);
  for (std::uint64_t completed = 0; completed < 20; ++completed) {
    EXPECT_LE(made, completed + depth);
    ASSERT_TRUE(batches.next());
    EXPECT_FALSE(batches.exhausted());
  }
}

TEST_P(PrefetchOfDepth, AnErrorArrivesAtItsPositionAfterTheGoodBatches) {
  for (std::uint64_t good = 0; good <= 6; ++good) {
    std::uint64_t made = 0;
    Prefetch<Batch> batches(
        [&](Batch& batch) {
          if (made == good) fail(ErrorCode::io, "shard {} is gone", good);
          batch.value = made++;
          batch.position.batch = made;
          return true;
        },
        {.depth = GetParam()});
    std::uint64_t served = 0;
    try {
      for (bool more = batches.prime(); more; more = batches.next()) {
        EXPECT_EQ(batches.current().value, served);
        ++served;
      }
      FAIL() << "the error was swallowed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
    }
    EXPECT_EQ(served, good);
    EXPECT_EQ(batches.offsets_to_commit().batch, good);
    EXPECT_THROW(batches.next(), Error);
  }
}

std::size_t threads_of_this_process() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

TEST_P(PrefetchOfDepth, MayBeAbandonedAtAnyTimeWithoutLeakingItsThread) {
  std::thread([] {}).join();  // ThreadSanitizer starts a thread of its own with the first one
  const std::size_t before = threads_of_this_process();
  for (int taken = -1; taken < 6; ++taken) {
    Prefetch<Batch> batches(Numbers{0, 4}, {.depth = GetParam()});
    if (taken >= 0) batches.prime();
    for (int i = 0; i < taken; ++i) batches.next();
  }
  // A joined thread may still be listed for a moment.
  for (int i = 0; i < 1000 && threads_of_this_process() != before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(Prefetch, RefusesMisuse) {
  EXPECT_THROW(Prefetch<Batch>(Numbers{}, {.depth = 0}), Error);
  Prefetch<Batch> batches(Numbers{0, 1});
  EXPECT_THROW(batches.next(), Error);
  EXPECT_THROW(batches.current(), Error);
  EXPECT_TRUE(batches.prime());
  EXPECT_THROW(batches.prime(), Error);
}

}  // namespace
}  // namespace headrace
