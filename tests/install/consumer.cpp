// A program of somebody else: runs a chain over channels, reads a plan, asks for a schedule's edges,
// draws an empty report.
#include <headrace/pipeline.h>
#include <headrace/plan.h>
#include <headrace/report.h>
#include <headrace/schedule.h>

#include <iostream>

int sum_of_squares(int count) {
  int next = 0, sum = 0;
  headrace::run_pipeline(
      {.capacity = 4}, [&] { return next < count ? std::optional(next++) : std::nullopt; },
      [](int number) { return number * number; }, [&](int square) { sum += square; });
  return sum;
}

int main() {
  const headrace::Plan plan = headrace::parse_plan(R"(
version: 1
plan: two-stages
resources:
  a: {kind: device}
  b: {kind: device}
stages:
  make: {on: a, cost: 2 ms, outputs: [items]}
  take: {on: b, cost: 1 ms, inputs: [items]}
channels:
  items: {items: 2}
schedule: lockstep
)",
                                                   "two-stages");
  const std::size_t lockstep = headrace::schedule_edges(plan, {.name = "lockstep"}).size();
  const std::size_t async = headrace::schedule_edges(plan, {.name = "async"}).size();
  const std::string page = headrace::report_html({.title = plan.name});
  std::cout << lockstep << " edges in lock-step, " << async << " asynchronous; a page of "
            << page.size() << " bytes\n";
  return sum_of_squares(10) == 285 && lockstep > async && page.find(plan.name) != std::string::npos
             ? 0
             : 1;
}
