// What goes wrong around the stages: memory, threads, and where an error says that it came from.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <semaphore>
#include <stop_token>
#include <thread>

#include "flow/shortage.h"
#include "headrace/error.h"
#include "plans.h"

thread_local long headrace::testing::allocations_left = -1;
std::atomic<long> headrace::testing::threads_left = -1;

using headrace::testing::allocations_left;
using headrace::testing::threads_left;

// Not inlined: where the compiler sees one of the three without the others it warns of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

// As where the system's limit of threads is reached.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left >= 0 && threads_left-- <= 0) {
    threads_left = 0;
    return EAGAIN;
  }
  return create(thread, attributes, start, argument);
}

namespace headrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing_plans::Counting;
using testing_plans::schedule;
using testing_plans::training;
using testing_plans::UntilReplanned;

std::string error_of(Executor& executor) {
  try {
    executor.run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_clean_run(const Plan& plan) {
  Counting good(6);
  Executor clean(plan, schedule("async"), good.functions(plan), {});
  EXPECT_EQ(clean.run(), Outcome::finished);
  EXPECT_EQ(good.seen("drafter").size(), 6u);
}

// The worker of each device in turn runs out of memory, once for each allocation that it makes.
TEST(ExecutorFailures, NoMemoryInAWorkerEndsTheRunWithAnError) {
  const Plan plan = training(1, 2);
  for (const std::string device : {"host", "t0", "d0"}) {
    std::string last = "none yet";
    for (long budget = 0; !last.empty() && budget < 10'000; ++budget) {
      Counting counting(3);
      Recorder recorder(trace_header(plan, schedule("async")));
      Executor executor(plan, schedule("async"), counting.functions(plan),
                        {.on_step = [](std::uint64_t) {},
                         .on_worker_start =
                             [&](const std::string& resource) {
                               if (resource == device) allocations_left = budget;
                             }},
                        &recorder);
      last = error_of(executor);
      EXPECT_THAT(last, ::testing::AnyOf("", HasSubstr("out of memory")));
    }
    EXPECT_EQ(last, "") << "with enough memory it runs";
  }
  expect_clean_run(plan);
}

TEST(ExecutorFailures, ThreadsThatCannotStartEndTheRunWithAnError) {
  const Plan plan = training(1, 2);
  for (long threads = 0; threads < 4; ++threads) {  // the watchdog and three workers
    Counting counting(3);
    Executor executor(plan, schedule("async"), counting.functions(plan), {});
    threads_left = threads;
    const std::string error = error_of(executor);
    threads_left = -1;
    EXPECT_THAT(error, StartsWith("cannot start the threads of plan training: ")) << threads;
  }
  expect_clean_run(plan);
}

// A worker fails while it takes its first inputs, and is held there while another one writes down
// what each device does: there are no outputs yet that could be waited for.
TEST(ExecutorFailures, AFailureAmongTheInputsIsNoWaitForOutputs) {
  const Plan plan = training(1, 2);
  for (long budget = 0; budget < 20; ++budget) {
    Counting counting(3);
    Recorder recorder(trace_header(plan, schedule("async")));
    Executor* running = nullptr;
    std::counting_semaphore<> go_on(0);
    std::optional<std::stop_callback<std::function<void()>>> while_it_fails;
    counting.before = [&](const std::string& stage, const Context& context) {
      if (stage == "drafter") go_on.release();  // nothing failed
      if (stage != "load" || context.firing.sequence != 1) return;
      while_it_fails.emplace(context.stop, [&, loader = std::this_thread::get_id()] {
        go_on.release();
        if (std::this_thread::get_id() == loader) return;
        allocations_left = -1;
        while (running->wait_for_graph().find("host: load works on step 1") != std::string::npos)
          std::this_thread::yield();
      });
      go_on.acquire();
    };
    Executor executor(plan, schedule("async"), counting.functions(plan),
                      {.on_worker_start =
                           [&](const std::string& resource) {
                             if (resource == "t0") allocations_left = budget;
                           }},
                      &recorder);
    running = &executor;
    EXPECT_THAT(error_of(executor), ::testing::AnyOf("", HasSubstr("out of memory")));
  }
}

// The thread that calls run() runs out of memory while it starts the others, or once they have
// ended.
TEST(ExecutorFailures, NoMemoryForTheThreadsEndsTheRunWithAnError) {
  const Plan plan = training(1, 2);
  bool failed = true;
  for (long budget = 0; failed && budget < 1000; ++budget) {
    Counting counting(3);
    Recorder recorder(trace_header(plan, schedule("async")));
    Executor executor(plan, schedule("async"), counting.functions(plan),
                      {.replan = {.after_steps = 100, .items = 8}}, &recorder);
    ErrorCode code = ErrorCode::resource;
    failed = false;
    allocations_left = budget;
    try {
      executor.run();
    } catch (const Error& error) {
      failed = true;
      code = error.code();
    }
    allocations_left = -1;
    EXPECT_EQ(code, ErrorCode::resource);
  }
  EXPECT_FALSE(failed) << "with enough memory it runs";
  expect_clean_run(plan);
}

// The same once the run has failed: the first error is the one that is thrown.
TEST(ExecutorFailures, NoMemoryForTheEndOfTheTraceKeepsTheFirstError) {
  const Plan plan = training(1, 2);
  for (long budget = 0; budget < 100; ++budget) {
    Counting counting(9);
    counting.before = [](const std::string& stage, const Context& context) {
      if (stage == "sync" && context.firing.step == 2) fail(ErrorCode::io, "planted");
    };
    Recorder recorder(trace_header(plan, schedule("async")));
    Executor executor(plan, schedule("async"), counting.functions(plan), {}, &recorder);
    ErrorCode code = ErrorCode::internal;
    allocations_left = budget;
    try {
      executor.run();
    } catch (const Error& error) {
      code = error.code();
    }
    allocations_left = -1;
    EXPECT_TRUE(code == ErrorCode::io || counting.seen("sync").size() < 2) << budget;
  }
}

// A worker that re-planning wants and does not get: the run goes on as it was.
TEST(ExecutorFailures, AThreadThatRePlanningCannotStartIsSaid) {
  Plan plan = training(1, 4);
  Counting counting(5000);
  counting.before = [](const std::string& stage, const Context& context) {
    if (stage == "load") std::this_thread::sleep_for(std::chrono::milliseconds(4));
    if (stage == "sync" && context.firing.step == 2) threads_left = 0;
  };
  UntilReplanned until("load", counting.functions(plan));
  Executor executor(plan, schedule("async"), until.functions(),
                    {.replan = {.after_steps = 8, .host_workers = {{"load", 4}}}});
  until.watch(executor);
  EXPECT_EQ(error_of(executor), "");
  threads_left = -1;
  EXPECT_EQ(counting.seen("drafter").size(), until.batches());
  EXPECT_THAT(executor.replanned()->reason, StartsWith("re-planning: "));
  EXPECT_EQ(executor.replanned()->applied_at_step, 0u);
}

// Items that carry positions: the error names the batch, and a stage without inputs the last one.
TEST(ExecutorFailures, AnErrorSaysWhichBatchItCameFrom) {
  const Plan plan = training(1, 4);
  const std::map<std::string, std::string> expected = {
      {"load",
       "stage load, replica 0, step 5, after batch 5 of epoch 0 (shard 0, row 5 of manifest "
       "1f2e3d4c): planted"},
      {"target",
       "stage target, replica 0, step 5, batch 6 of epoch 0 (shard 0, row 6 of manifest "
       "1f2e3d4c): planted"},
      {"drafter",
       "stage drafter, replica 0, step 5, batch 6 of epoch 0 (shard 0, row 6 of manifest "
       "1f2e3d4c): planted"},
      {"sync",
       "stage sync, replica 0, step 5, after batch 6 of epoch 0 (shard 0, row 6 of manifest "
       "1f2e3d4c): planted"}};
  for (const auto& [failing, message] : expected) {
    std::map<std::string, StageFunction> functions;
    for (const Stage& stage : plan.stages)
      functions[stage.name] = [&, name = stage.name](Context& context) {
        const std::uint64_t batch = context.firing.sequence + 1;
        if (name == failing && batch == 6) {
          std::vector<Item> taken = std::move(context.inputs);
          fail(ErrorCode::io, "planted");
        }
        for (Item& item : context.outputs)
          item.position = name == "load"
                              ? Position{.manifest = "1f2e3d4c5b6a", .batch = batch, .row = batch}
                              : context.inputs[0].position;
        return true;
      };
    Executor executor(plan, schedule("async"), functions, {});
    EXPECT_EQ(error_of(executor), message);
  }
}

}  // namespace
}  // namespace headrace
