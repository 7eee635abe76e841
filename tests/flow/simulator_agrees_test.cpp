// The executor and the simulator obey one Progress: with stages that sleep as long as their cost
// says, the measured step time is the predicted one.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "headrace/simulator.h"
#include "plans.h"

namespace headrace {
namespace {

using testing_plans::training;

struct Measured {
  Plan plan;  // with the costs that the stages had, sleeps of a busy machine included
  double step_seconds = 0;
};

Measured measure(const Plan& plan, const std::string& name, std::uint64_t steps) {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> ends;
  std::vector<std::vector<double>> costs(plan.stages.size());
  std::mutex mutex;
  std::map<std::string, StageFunction> functions;
  for (std::size_t i = 0; i < plan.stages.size(); ++i)
    functions[plan.stages[i].name] = [&, i](Context&) {
      const Clock::time_point start = Clock::now();
      std::this_thread::sleep_for(std::chrono::duration<double>(plan.stages[i].cost.mean()));
      const std::lock_guard lock(mutex);
      costs[i].push_back(std::chrono::duration<double>(Clock::now() - start).count());
      return true;
    };
  Executor executor(
      plan, {.name = name}, functions,
      {.steps = steps, .on_step = [&](std::uint64_t) { ends.push_back(Clock::now()); }});
  EXPECT_EQ(executor.run(), Outcome::finished);
  const std::size_t warm = steps / 4;
  Measured measured{plan, std::chrono::duration<double>(ends.back() - ends[warm]).count() /
                              static_cast<double>(steps - 1 - warm)};
  for (std::size_t i = 0; i < plan.stages.size(); ++i)
    measured.plan.stages[i].cost.samples = costs[i];
  return measured;
}

TEST(Executor, TakesAsLongAsTheSimulatorSays) {
  for (const std::uint64_t replicas : {1, 2})
    for (const std::string& name : standard_schedules()) {
      Plan plan = training(replicas, 2 * replicas);
      const double costs[] = {0.002, 0.020, 0.012, 0.004};
      for (std::size_t i = 0; i < plan.stages.size(); ++i) plan.stages[i].cost = Cost::of(costs[i]);
      // A busy machine wakes threads late, which the costs know, and hands work on late, which
      // they do not: the best of several runs counts.
      double error = 1;
      for (int attempt = 0; attempt < 20 && error > 0.1; ++attempt) {
        const Measured measured = measure(plan, name, 16);
        const double predicted =
            simulate(measured.plan, {.name = name}, {.steps = 16, .keep_spans = false})
                .step_seconds;
        error = std::min(error, std::abs(measured.step_seconds / predicted - 1));
      }
      EXPECT_LE(error, 0.1) << name << ", " << replicas << " replicas";
    }
}

}  // namespace
}  // namespace headrace
