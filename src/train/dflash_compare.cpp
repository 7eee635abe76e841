#include "train/dflash_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headrace/error.h"
#include "headrace/quantity.h"
#include "headrace/simulator.h"
#include "headrace/thread.h"
#include "train/progress_line.h"

namespace headrace {
namespace {

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

}  // namespace

double Comparison::speedup() const {
  double lockstep = 0, async = 0;
  for (const ComparedRun& compared : runs) {
    if (compared.run.name == "lockstep") lockstep = compared.run.step_seconds_p50;
    if (compared.run.name == "async") async = compared.run.step_seconds_p50;
  }
  return async > 0 ? lockstep / async : 0;
}

Comparison compare_schedules(const DflashSession& session, std::shared_ptr<const Target> target,
                             const std::string& out) {
  Comparison comparison;
  comparison.costs = probe_costs(session, target);

  std::vector<PlacedPlan> plans;
  std::vector<std::string> names = standard_schedules();
  for (const std::string& name : names) {
    plans.push_back(dflash_plan(session.options, session.feature_bytes()));
    plans.back().plan.schedule.name = name;
  }
  names.push_back("lockstep_allcores");
  plans.push_back(dflash_plan_all_cores(session.options, session.feature_bytes()));

  std::vector<float> first_weights;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    DflashTrainer trainer(session, target, session.options.drafters);
    trainer.set_total_steps(session.options.steps);
    ProgressLine progress(names[i]);
    ComparedRun compared;
    compared.run = run_plan(plans[i], trainer,
                            {.name = names[i],
                             .until = session.options.steps,
                             .trace_path = fmt::format("{}/trace-{}.json", out, names[i])},
                            [&](const StepLog& log) {
                              progress.update(log.step + 1, session.options.steps,
                                              fmt::format("loss {:.3f}", log.loss));
                              return true;
                            });
    if (compared.run.outcome == Outcome::stopped)
      fail(ErrorCode::cancelled, "stopped while comparing");
    // Devices that share a core are not predicted: the plan does not know of cores.
    const bool predictable = plans[i].placement.cores.size() <= allowed_cores().size();
    if (names[i] == "lockstep_allcores") {
      comparison.placement_distance = largest_difference(first_weights, trainer.weights());
    } else if (predictable) {
      const Plan costed = with_probed_costs(plans[i].plan, comparison.costs);
      compared.predicted_seconds = simulate(costed, costed.schedule).step_seconds;
    }
    if (i == 0) first_weights.assign(trainer.weights().begin(), trainer.weights().end());
    comparison.runs.push_back(std::move(compared));
  }
  comparison.same_weights =
      comparison.runs[0].run.weights_sha256 == comparison.runs[1].run.weights_sha256 &&
      comparison.runs[0].run.weights_sha256 == comparison.runs[2].run.weights_sha256;
  return comparison;
}

std::string comparison_table(const Comparison& comparison) {
  std::string text =
      fmt::format("{:18} {:>10} {:>10} {:>10} {:>8} {:>9} {:>10}  {}\n", "schedule", "step",
                  "predicted", "bound", "of bound", "speed-up", "loss", "weights");
  const double lockstep = comparison.runs.front().run.step_seconds_p50;
  for (const auto& [run, predicted] : comparison.runs) {
    text += fmt::format(
        "{:18} {:>10} {:>10} {:>10} {:>8.2f} {:>8.2f}x {:>10.4f}  {:.12}\n", run.name,
        format_seconds(run.step_seconds_p50, 3), predicted > 0 ? format_seconds(predicted, 3) : "-",
        format_seconds(run.bound_seconds, 3), run.step_seconds_p50 / run.bound_seconds,
        lockstep / run.step_seconds_p50, run.loss_last, run.weights_sha256);
  }
  text += fmt::format(
      "alone: target {}, drafter {}, sync {}; {:.2f} times as long while both cores work\n",
      format_seconds(comparison.costs.alone.at("target"), 3),
      format_seconds(comparison.costs.alone.at("drafter"), 3),
      format_seconds(comparison.costs.alone.at("sync"), 3), comparison.costs.slowdown);
  text += fmt::format(
      "weights: {} under the three schedules; the other placement differs by at most {:.1e}\n",
      comparison.same_weights ? "the same bits" : "NOT the same", comparison.placement_distance);
  return text;
}

}  // namespace headrace
