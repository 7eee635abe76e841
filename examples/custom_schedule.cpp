// A custom schedule: three stages share two devices, and the order of a step is given by hand, once as
// phases and once as edges. Schedules add ordering and nothing else, so the sums are the same.
#include <fmt/format.h>

#include "headrace/executor.h"
#include "headrace/simulator.h"

int main() {
  using namespace headrace;
  const Plan plan = parse_plan(R"(
version: 1
plan: custom-schedule
resources: {a: {kind: device}, b: {kind: device}}
stages:
  draw: {on: a, cost: 2 ms, outputs: [drawn]}
  scale: {on: b, cost: 1 ms, inputs: [drawn], outputs: [scaled]}
  sum: {on: a, cost: 1 ms, inputs: [scaled]}
channels: {drawn: {items: 2}, scaled: {items: 2}}
schedule: async
)",
                               "custom_schedule");
  // By hand: the three in turn, or scale one step ahead of the draw after next.
  const ScheduleText phases{"phases", {{"draw"}, {"scale"}, {"sum"}}, {}};
  const ScheduleText edges{"edges", {}, {{"sum@n", "draw@n+2"}, {"scale@n", "draw@n+2"}}};
  for (const ScheduleText& schedule : {plan.schedule, phases, edges}) {
    long sum = 0;
    std::map<std::string, StageFunction> functions;
    functions["draw"] = [](Context& context) {
      context.outputs[0].payload = static_cast<long>(context.firing.sequence);
      return context.firing.sequence < 100;  // false: there is no such batch
    };
    functions["scale"] = [](Context& context) {
      context.outputs[0].payload = 3 * context.input<long>();
      return true;
    };
    functions["sum"] = [&sum](Context& context) { return sum += context.input<long>(), true; };
    Executor(plan, schedule, functions, {}).run();
    fmt::print("{:6} predicted {:.1f} ms a step, sum {}\n", schedule.name,
               1e3 * simulate(plan, schedule).step_seconds, sum);
    if (sum != 14850) return 1;
  }
  return 0;
}
