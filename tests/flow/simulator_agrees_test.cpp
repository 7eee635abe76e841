// The executor and the simulator obey one Progress: with stages that sleep as long as their cost
// says, the measured step time is the predicted one.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "headrace/simulator.h"
#include "plans.h"

namespace headrace {
namespace {

using testing_plans::training;

double measured_step_seconds(const Plan& plan, const std::string& name, std::uint64_t steps) {
  std::vector<std::chrono::steady_clock::time_point> ends;
  std::map<std::string, StageFunction> functions;
  for (const Stage& stage : plan.stages)
    functions[stage.name] = [cost = stage.cost.mean()](Context&) {
      std::this_thread::sleep_for(std::chrono::duration<double>(cost));
      return true;
    };
  Executor executor(plan, {.name = name}, functions,
                    {.steps = steps, .on_step = [&](std::uint64_t) {
                       ends.push_back(std::chrono::steady_clock::now());
                     }});
  EXPECT_EQ(executor.run(), Outcome::finished);
  const std::size_t warm = steps / 4;
  return std::chrono::duration<double>(ends.back() - ends[warm]).count() /
         static_cast<double>(steps - 1 - warm);
}

TEST(Executor, TakesAsLongAsTheSimulatorSays) {
  for (const std::uint64_t replicas : {1, 2})
    for (const std::string& name : standard_schedules()) {
      Plan plan = training(replicas, 2 * replicas);
      const double costs[] = {0.002, 0.020, 0.012, 0.004};
      for (std::size_t i = 0; i < plan.stages.size(); ++i) plan.stages[i].cost = Cost::of(costs[i]);
      const double predicted =
          simulate(plan, {.name = name}, {.steps = 16, .keep_spans = false}).step_seconds;
      // A busy machine wakes threads late: the best of several runs counts.
      double error = 1;
      for (int attempt = 0; attempt < 10 && error > 0.1; ++attempt)
        error = std::min(error, std::abs(measured_step_seconds(plan, name, 16) / predicted - 1));
      EXPECT_LE(error, 0.1) << name << ", " << replicas << " replicas, predicted " << predicted
                            << " s";
    }
}

}  // namespace
}  // namespace headrace
