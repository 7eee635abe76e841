// A three-stage pipeline: numbers are made by a background thread, squared on one device and summed
// on another. usage: three_stage [TRACE.json]
#include <fmt/format.h>

#include "headrace/executor.h"

int main(int argc, char** argv) {
  using namespace headrace;
  const Plan plan = parse_plan(R"(
version: 1
plan: three-stage
resources: {loader: {kind: host}, a: {kind: device}, b: {kind: device}}
stages:
  make: {on: loader, outputs: [numbers]}
  square: {on: a, inputs: [numbers], outputs: [squares]}
  sum: {on: b, inputs: [squares]}
channels: {numbers: {items: 4}, squares: {items: 4}}
schedule: async
)",
                               "three_stage");
  long sum = 0;
  std::map<std::string, StageFunction> functions;
  functions["make"] = [](Context& context) {
    context.outputs[0].payload = static_cast<long>(context.firing.sequence);
    return context.firing.sequence < 1000;  // false: there is no such batch
  };
  functions["square"] = [](Context& context) {
    context.outputs[0].payload = context.input<long>() * context.input<long>();
    return true;
  };
  functions["sum"] = [&sum](Context& context) { return sum += context.input<long>(), true; };
  Recorder recorder(trace_header(plan, plan.schedule), {.path = argc > 1 ? argv[1] : ""});
  Executor(plan, plan.schedule, functions, {}, &recorder).run();
  recorder.finish();
  fmt::print("{}\n", sum);
  return sum == 332833500 ? 0 : 1;
}
