// Random plans with something going wrong at a random place: every run ends, with the error that
// was thrown or as asked, leaves no thread behind, and the next run in the same process is clean.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <random>
#include <set>
#include <thread>

#include "headrace/error.h"
#include "headrace/executor.h"
#include "headrace/schedule.h"
#include "plan/graph.h"
#include "plan/random_plan.h"
#include "threads.h"

namespace headrace {
namespace {

enum class Trouble {
  none,
  throws,          // a stage, at one of its firings
  all_throw,       // every stage, from one step on: whoever comes first wins
  blocks,          // a stage waits until it is stopped, and another thread stops the run
  stop_meanwhile,  // from another thread, at some moment
  stop_before,
  step_throws,   // on_step
  start_throws,  // on_worker_start
};

struct Scenario {
  Plan plan;
  ScheduleText schedule;
  std::uint64_t steps = 0, batches = 0;
  Trouble trouble = Trouble::none;
  std::size_t stage = 0;   // where
  std::uint64_t step = 0;  // when
  unsigned pause_us = 0;   // before another thread stops the run
};

Scenario random_scenario() {
  Scenario s;
  s.plan = random_plan();
  s.schedule.name = standard_schedules()[static_cast<std::size_t>(pick(0, 2))];
  s.steps = static_cast<std::uint64_t>(pick(1, 12));
  s.batches = pick(0, 1) == 0 ? UINT64_MAX : static_cast<std::uint64_t>(pick(0, 12));
  s.trouble = static_cast<Trouble>(pick(0, 7));
  s.stage = static_cast<std::size_t>(pick(0, static_cast<int>(s.plan.stages.size()) - 1));
  s.step = static_cast<std::uint64_t>(pick(0, 3));
  s.pause_us = static_cast<unsigned>(pick(0, 800));
  return s;
}

class Attack {
 public:
  explicit Attack(const Scenario& scenario) : s_(scenario), graph_(scenario.plan) {}

  void check() {
    ExecutorOptions options;
    options.steps = s_.steps;
    options.watchdog_seconds = 60;  // a hang is an error that nobody threw
    options.on_step = [&](std::uint64_t step) {
      if (s_.trouble == Trouble::step_throws && step == s_.step) throw_it();
    };
    options.on_worker_start = [&](const std::string& resource) {
      if (s_.trouble == Trouble::start_throws && resource == s_.plan.stages[s_.stage].on.front())
        throw_it();
    };
    std::map<std::string, StageFunction> functions;
    for (std::size_t i = 0; i < s_.plan.stages.size(); ++i)
      functions[s_.plan.stages[i].name] = [this, i](Context& context) { return fire(i, context); };
    Executor executor(s_.plan, s_.schedule, functions, options);
    if (s_.trouble == Trouble::stop_before) executor.request_stop();
    std::jthread stopper;
    if (s_.trouble == Trouble::stop_meanwhile || s_.trouble == Trouble::blocks)
      stopper = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(s_.pause_us));
        executor.request_stop();
      });
    try {
      const Outcome outcome = executor.run();
      RC_ASSERT(thrown_.empty());
      if (outcome == Outcome::stopped)
        RC_ASSERT(s_.trouble == Trouble::stop_before || s_.trouble == Trouble::stop_meanwhile ||
                  s_.trouble == Trouble::blocks);
      if (s_.trouble == Trouble::none) RC_ASSERT(outcome == Outcome::finished);
    } catch (const Error& error) {
      RC_LOG() << error.what() << "\n";
      const std::string text = error.what();
      RC_ASSERT(error.code() == ErrorCode::io);
      RC_ASSERT(thrown_.contains(text.substr(text.rfind(' ') + 1)));
    }
  }

 private:
  [[noreturn]] void throw_it() {
    std::string name;
    {
      const std::lock_guard lock(mutex_);
      name = "planted" + std::to_string(thrown_.size());
      thrown_.insert(name);
    }
    fail(ErrorCode::io, "{}", name);
  }

  bool fire(std::size_t stage, Context& context) {
    const bool here = stage == s_.stage && context.firing.step == s_.step;
    if (s_.trouble == Trouble::throws && here) throw_it();
    if (s_.trouble == Trouble::all_throw && context.firing.step >= s_.step) throw_it();
    if (s_.trouble == Trouble::blocks && here) {
      std::mutex mutex;
      std::condition_variable_any never;
      std::unique_lock lock(mutex);
      never.wait(lock, context.stop, [] { return false; });
      fail(ErrorCode::cancelled, "gave up");
    }
    return !graph_.is_source(stage) || context.firing.sequence < s_.batches;
  }

  const Scenario& s_;
  const Graph graph_;
  std::mutex mutex_;
  std::set<std::string> thrown_;
};

TEST(Stress, EveryRunEndsAndTheNextIsClean) {
  const std::size_t before = testing::threads_at_rest();
  EXPECT_TRUE(rc::check([&] {
    Scenario scenario = random_scenario();
    RC_LOG() << write_plan(scenario.plan) << scenario.schedule.name << ", trouble "
             << static_cast<int>(scenario.trouble) << " in " << scenario.stage << " at step "
             << scenario.step << "\n";
    Attack(scenario).check();
    scenario.trouble = Trouble::none;
    Attack(scenario).check();
    RC_ASSERT(testing::threads_fall_to(before));
  }));
}

}  // namespace
}  // namespace headrace
