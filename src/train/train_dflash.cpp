// headrace train dflash: checks what it is asked for, then plans, compares or trains.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "headrace/atomic_file.h"
#include "headrace/error.h"
#include "headrace/quantity.h"
#include "headrace/simulator.h"
#include "plan/files.h"
#include "train/dflash_compare.h"
#include "train/dflash_report.h"
#include "train/dflash_training.h"
#include "train/interrupt.h"
#include "train/memory_plan.h"
#include "train/steps_log.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

// Largest difference of a weight between two placements after --compare --deterministic.
constexpr double kPlacementTolerance = 1e-4;

// Where a resumed run goes on writing: the folder that holds the step.
std::string out_folder(const DflashOptions& options) {
  if (!options.out.empty()) return options.out;
  if (options.resume.empty()) return "out";
  const fs::path given(options.resume);
  return fs::exists(given / "MANIFEST") ? fs::canonical(given).parent_path().string()
                                        : given.string();
}

// Error(bad_input) where `out` is in use. Creates nothing yet.
void check_out(const std::string& out, const DflashOptions& options) {
  const fs::path html_folder = fs::path(options.html).parent_path();
  if (!html_folder.empty() && !fs::is_directory(html_folder))
    fail(ErrorCode::bad_input, "--html {}: there is no folder {}", options.html,
         html_folder.string());
  const bool resumed_here = !options.resume.empty() && options.out.empty();
  if (resumed_here || !fs::exists(out) || holds_no_checkpoint_yet(out)) return;
  fail(ErrorCode::bad_input,
       "--out {} exists: choose another folder, or --resume {} to go on with it", out, out);
}

int dry_run(const DflashSession& session, std::shared_ptr<const Target> target) {
  const PlacedPlan placed = wanted_plan(session.options, session.feature_bytes());
  const Plan plan = with_probed_costs(placed.plan, probe_costs(session, std::move(target)));
  const Simulation simulation = simulate(plan, plan.schedule);
  const std::uint64_t done = session.resumed ? session.resumed->step : 0;
  const std::uint64_t steps = session.options.steps > done ? session.options.steps - done : 0;
  const std::uint64_t memory = planned_memory(session).total();
  nlohmann::ordered_json json{{"plan", write_plan(plan)},
                              {"memory_bytes", memory},
                              {"step_seconds", simulation.step_seconds},
                              {"bound_seconds", simulation.bound_seconds}};
  std::string text =
      write_plan(plan) + fmt::format("\nmemory {:.2f} GiB at most\nstep {} (bound {})\n",
                                     static_cast<double>(memory) / (1u << 30),
                                     format_seconds(simulation.step_seconds, 3),
                                     format_seconds(simulation.bound_seconds, 3));
  if (steps > 0) {
    json["seconds"] = static_cast<double>(steps) * simulation.step_seconds;
    text +=
        fmt::format("time {} for {} steps\n",
                    format_seconds(static_cast<double>(steps) * simulation.step_seconds, 3), steps);
  } else if (session.options.seconds > 0) {
    json["seconds"] = session.options.seconds;
    text += fmt::format("time {}, about {:.0f} steps\n", format_seconds(session.options.seconds, 3),
                        session.options.seconds / simulation.step_seconds);
  }
  print_result(json, text, session.options.json);
  return 0;
}

int compare(const DflashSession& session, std::shared_ptr<const Target> target,
            const std::string& out) {
  StepsLog lock(out);  // stays empty
  lock.begin();
  const Comparison comparison = compare_schedules(session, std::move(target), out);
  const nlohmann::ordered_json json = to_json(comparison);
  write_file_atomically((fs::path(out) / "compare.json").string(), json.dump(2) + "\n");
  const std::string html = session.options.html.empty() ? (fs::path(out) / "report.html").string()
                                                        : session.options.html;
  print_result(json, comparison_table(comparison), session.options.json);
  write_file_atomically(html, report_html(to_report(session, comparison)));
  fmt::print(stderr, "report: {}\n", html);
  if (session.options.deterministic && !comparison.same_weights)
    fail(ErrorCode::internal, "the three schedules ended with different weights");
  if (session.options.deterministic && comparison.placement_distance > kPlacementTolerance)
    fail(ErrorCode::internal,
         "the placement with all cores ended with weights that differ by {:.1e}",
         comparison.placement_distance);
  return 0;
}

}  // namespace

int train_dflash(const DflashOptions& given) {
  catch_interrupts();
  DflashSession session = open_session(given);
  const std::string out = out_folder(session.options);
  if (!session.options.dry_run) check_out(out, session.options);
  check_memory(session);
  use_all_cores();
  std::shared_ptr<const Target> target = load_training_target(session);
  if (session.options.dry_run) return dry_run(session, std::move(target));
  if (session.options.compare) return compare(session, std::move(target), out);
  return train_into(out, session, std::move(target));
}

}  // namespace headrace
