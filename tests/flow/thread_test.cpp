#include "headrace/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "headrace/error.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What is set for a thread goes with it: each test works in one of its own.
template <typename Action>
void in_thread(Action action) {
  std::jthread(action).join();
}

TEST(Thread, ANameIsCutToWhatTheKernelKeeps) {
  in_thread([] {
    char name[16];
    for (const std::string given : {"drafter.0", "a name that is too long"}) {
      name_thread(given);
      ASSERT_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
      EXPECT_EQ(std::string(name), given.substr(0, 15));
    }
  });
}

TEST(Thread, PinningHoldsForTheThreadAndThoseItStarts) {
  const std::vector<int> before = allowed_cores();
  ASSERT_FALSE(before.empty());
  in_thread([&] {
    pin_to({});
    EXPECT_EQ(allowed_cores(), before);
    pin_to({before.back()});
    EXPECT_THAT(allowed_cores(), ElementsAre(before.back()));
    EXPECT_EQ(sched_getcpu(), before.back());
    in_thread([&] { EXPECT_THAT(allowed_cores(), ElementsAre(before.back())); });
  });
  EXPECT_EQ(allowed_cores(), before);
}

TEST(Thread, ACoreThatIsNotThereIsNamed) {
  in_thread([] {
    for (const std::vector<int>& cores :
         {std::vector<int>{CPU_SETSIZE - 1}, {allowed_cores().front(), CPU_SETSIZE - 1}}) {
      try {
        pin_to(cores);
        ADD_FAILURE() << cores.size();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::resource);
        EXPECT_THAT(error.what(), HasSubstr(fmt::format("core {}", CPU_SETSIZE - 1)));
      }
    }
  });
}

TEST(Thread, PriorityIsLoweredForOneThreadAndNeverRaised) {
  const auto nice = [] { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); };
  const int before = nice();
  in_thread([&] {
    lower_priority(17);
    EXPECT_EQ(nice(), std::max(before, 17));
    lower_priority(3);
    EXPECT_EQ(nice(), std::max(before, 17));
  });
  EXPECT_EQ(nice(), before);
}

TEST(ThreadWait, ShowsTheWaitOfTheThreadThatInstalledIt) {
  ThreadWait wait;
  int described = 0;
  const auto describe = [&] {
    ++described;
    return std::string("receive from features: 0/4 items");
  };
  { const ThreadWait::Scope unwatched(describe); }
  EXPECT_EQ(described, 0) << "nobody looks";
  wait.install();
  {
    const ThreadWait::Scope scope(describe);
    in_thread([&] {
      const ThreadWait::Snapshot seen = wait.snapshot();
      EXPECT_EQ(seen.waits_to, "receive from features: 0/4 items");
      EXPECT_EQ(seen.changes, 1u);
      const ThreadWait::Scope elsewhere(describe);
      EXPECT_EQ(wait.snapshot().changes, 1u) << "another thread's wait";
    });
  }
  EXPECT_EQ(wait.snapshot().waits_to, std::nullopt);
  EXPECT_EQ(wait.snapshot().changes, 2u);
}

TEST(ThreadWait, ItsEndLeavesTheThreadUnwatched) {
  {
    ThreadWait wait;
    wait.install();
  }
  bool described = false;
  const ThreadWait::Scope scope([&] {
    described = true;
    return std::string("wait");
  });
  EXPECT_FALSE(described);
}

}  // namespace
}  // namespace headrace
