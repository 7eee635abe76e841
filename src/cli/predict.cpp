// `headrace predict`: how long a step of a plan takes under its schedules, and what sets the pace.
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/predict_report.h"
#include "headrace/atomic_file.h"
#include "headrace/quantity.h"
#include "headrace/schedule.h"
#include "headrace/simulator.h"

namespace headrace {
namespace {

struct Options {
  std::string plan, schedule, html;
  bool json = false;
};

// The schedules that `wanted` names: the plan's own where it is empty.
std::vector<ScheduleText> chosen_schedules(const Plan& plan, const std::string& wanted) {
  if (wanted.empty() || wanted == plan.schedule.name) return {plan.schedule};
  const auto& standard = standard_schedules();
  std::vector<ScheduleText> all;
  for (const std::string& name : standard) all.push_back({name, {}, {}});
  const bool own =
      std::find(standard.begin(), standard.end(), plan.schedule.name) == standard.end();
  if (own) all.push_back(plan.schedule);
  if (wanted == "all") return all;
  for (const ScheduleText& schedule : all)
    if (schedule.name == wanted) return {schedule};
  fail(ErrorCode::usage, "--schedule {}: unknown; one of {}{}, all", wanted,
       fmt::join(standard, ", "), own ? ", " + plan.schedule.name : "");
}

std::string clipped(std::string text, std::size_t columns) {
  if (text.size() > columns) text.replace(columns - 3, std::string::npos, "...");
  return text;
}

void print_table(const Plan& plan, const std::vector<Simulation>& simulations) {
  fmt::print("{}: no schedule takes less than {} a step\n\n",
             plan.name.empty() ? "plan" : plan.name,
             format_seconds(simulations.front().bound_seconds));
  fmt::print("{:<12}{:>12}{:>8}  {:<28}{}\n", "schedule", "step", "/bound",
             "5th to 95th percentile", "critical path");
  for (const Simulation& s : simulations)
    fmt::print(
        "{:<12}{:>12}{:>8.2f}  {:<28}{}\n", s.schedule, format_seconds(s.step_seconds),
        s.bound_seconds > 0 ? s.step_seconds / s.bound_seconds : 1.0,
        fmt::format("{} to {}", format_seconds(s.interval_low), format_seconds(s.interval_high)),
        clipped(fmt::format("{}", fmt::join(s.critical_path, " > ")), 36));
}

void print_json(const std::vector<Simulation>& simulations) {
  nlohmann::ordered_json schedules = nlohmann::ordered_json::array();
  for (const Simulation& s : simulations)
    schedules.push_back({{"name", s.schedule},
                         {"step_seconds", s.step_seconds},
                         {"bound_seconds", s.bound_seconds},
                         {"interval", {s.interval_low, s.interval_high}},
                         {"critical_path", s.critical_path}});
  fmt::print("{}\n", nlohmann::ordered_json{{"schedules", schedules}}.dump(2));
}

int predict(const Options& options) {
  const Plan plan = read_plan(options.plan);
  SimulateOptions simulate_options;
  simulate_options.keep_spans = !options.html.empty();
  std::vector<Simulation> simulations;
  for (const ScheduleText& schedule : chosen_schedules(plan, options.schedule))
    simulations.push_back(simulate(plan, schedule, simulate_options));
  if (!options.html.empty())
    write_file_atomically(options.html, report_html(predict_report(plan, simulations)));
  options.json ? print_json(simulations) : print_table(plan, simulations);
  return 0;
}

}  // namespace

Action add_predict(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand("predict", "Predict the step time of a plan");
  command.add_option("PLAN", options->plan, "Plan file (YAML)")->required();
  command.add_option("--schedule", options->schedule,
                     "lockstep, overlapped, async, the plan's own (default) or all");
  command.add_option("--html", options->html, "Write a report with the timelines to this file");
  command.add_flag("--json", options->json, "Print one JSON object");
  return [options] { return predict(*options); };
}

}  // namespace headrace
