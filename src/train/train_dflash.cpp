// headrace train dflash.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "headrace/atomic_file.h"
#include "headrace/error.h"
#include "headrace/quantity.h"
#include "headrace/simulator.h"
#include "headrace/thread.h"
#include "nn/threads.h"
#include "plan/files.h"
#include "train/dflash_compare.h"
#include "train/dflash_report.h"
#include "train/interrupt.h"
#include "train/memory_plan.h"
#include "train/progress_line.h"
#include "train/steps_log.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

// With --seconds the number of steps is fixed after so many, from their median time.
constexpr std::uint64_t kTimedSteps = 12;
// Largest difference of a weight between two placements after --compare --deterministic.
constexpr double kPlacementTolerance = 1e-4;

PlacedPlan placed_plan(const DflashSession& session) {
  const DflashOptions& options = session.options;
  return options.plan_file.empty() ? dflash_plan(options, session.feature_bytes())
                                   : dflash_plan_from(options.plan_file);
}

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

void use_all_cores() {
  set_compute_threads(static_cast<int>(allowed_cores().size()));
}

void print_result(const nlohmann::ordered_json& json, const std::string& text, bool as_json) {
  if (as_json)
    fmt::print("{}\n", json.dump());
  else
    fmt::print("{}", text);
}

int dry_run(const DflashSession& session, std::shared_ptr<const Target> target) {
  const PlacedPlan placed = placed_plan(session);
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

int compare(const DflashSession& session, std::shared_ptr<const Target> target) {
  const std::string out = out_folder(session.options);
  make_folders(out);
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

// One training run with its folder.
class Training {
 public:
  Training(const DflashSession& session, std::shared_ptr<const Target> target)
      : session_(session),
        options_(session.options),
        out_(out_folder(options_)),
        placed_(placed_plan(session)),
        trainer_(session, std::move(target), placed_.plan.stage("drafter").replicas),
        evaluator_(session),
        log_(out_),
        progress_("step") {}

  int run() {
    prepare();
    DflashOutcome outcome;
    if (nothing_left()) {
      outcome.run.name = placed_.plan.schedule.name;
      outcome.run.weights_sha256 = trainer_.weights_sha256();
      finish(outcome);
      return 0;
    }
    try {
      outcome.run =
          run_plan(placed_, trainer_,
                   {.name = placed_.plan.schedule.name,
                    .until = options_.steps,
                    .trace_path = trace_path(),
                    .replan = {.after_steps = options_.replan,
                               .items = kReplanDeepens * placed_.plan.channel("features").items}},
                   [this](const StepLog& log) { return after_step(log); });
    } catch (...) {
      progress_.clear();
      save_what_can_be();
      throw;
    }
    progress_.clear();
    outcome.log = trainer_.log();
    if (outcome.log.empty() && interrupted())
      fail(ErrorCode::cancelled, "stopped before the first step");
    if (outcome.log.empty())
      fail(ErrorCode::bad_input,
           "the data hold no row of at least three tokens: nothing was trained");
    if (saved_ != trainer_.steps()) save();
    write_files(outcome.run);
    if (interrupted()) return report_interrupt();
    finish(outcome);
    return 0;
  }

 private:
  // The number of steps, where it is known; a resumed run goes on with that of its checkpoint.
  void prepare() {
    if (session_.resumed) {
      saved_ = session_.resumed->step;
      if (!options_.given.count("--seconds"))
        trainer_.set_total_steps(session_.resumed->state.value("total_steps", std::uint64_t{0}));
    }
    if (options_.steps > 0) trainer_.set_total_steps(options_.steps);
    if (nothing_left() && has_ended())
      fail(ErrorCode::usage,
           "{} holds step {} of {}: nothing is left to train; give a larger --steps, or --seconds",
           options_.resume, trainer_.steps(), trainer_.total_steps());
    if (trainer_.total_steps() == 0 && options_.seconds <= 0)
      fmt::print(stderr,
                 "one pass over the data: the learning rate stays at its peak; give --steps or "
                 "--seconds and it falls\n");
    open_log();
    start_ = std::chrono::steady_clock::now();
  }

  bool nothing_left() const {
    return trainer_.total_steps() > 0 && trainer_.steps() >= trainer_.total_steps();
  }

  bool goes_on_in_place() const {
    std::error_code absent;
    return fs::equivalent(fs::path(session_.resumed->folder).parent_path(), out_, absent);
  }

  // False for a run that was stopped between its last checkpoint and its result, which comes last:
  // it is resumed to evaluate and report.
  bool has_ended() const {
    const std::string path = (fs::path(out_) / "result.json").string();
    if (!goes_on_in_place()) return true;
    if (!fs::exists(path)) return false;
    const auto result = nlohmann::json::parse(read_file(path), nullptr, false);
    return result.is_object() &&
           result.value("weights_sha256", std::string()) == trainer_.weights_sha256();
  }

  // From here on OUT is this run's.
  void open_log() {
    if (!session_.resumed) return log_.begin();
    const CheckpointFiles& from = *session_.resumed;
    if (!goes_on_in_place()) return log_.begin(from.step);
    if (!log_.go_on_in_place(from.step, from.state.value("log_bytes", std::uint64_t{0})))
      fmt::print(
          stderr,
          "headrace: {}/steps.jsonl does not hold step {}: the rows before it are not known\n",
          out_, from.step);
    remove_leftovers(out_);
  }

  int report_interrupt() const {
    fmt::print(stderr, "stopped after step {}; go on with: headrace train dflash --resume {}\n",
               trainer_.steps(), out_);
    return Error(ErrorCode::cancelled, "").exit_status();
  }

  bool after_step(const StepLog& log) {
    log_steps();
    fix_number_of_steps();
    const std::uint64_t total = trainer_.total_steps(), done = log.step + 1;
    progress_.update(done, total, fmt::format("loss {:.3f}", log.loss));
    if (options_.checkpoint_every > 0 && done % options_.checkpoint_every == 0 && done != total)
      save();
    if (options_.evaluate && options_.evaluate_every > 0 && done % options_.evaluate_every == 0 &&
        done != total) {
      scores_.push_back(evaluator_.score(trainer_));
      progress_.clear();
      fmt::print(stderr, "step {}: loss {:.3f}, tau {:.3f} after {} tokens\n", done, log.loss,
                 scores_.back().tau, scores_.back().tokens);
    }
    return total == 0 || done < total;
  }

  // The first step is left out of the estimate: it carries the start-up.
  void fix_number_of_steps() {
    if (options_.seconds <= 0 || trainer_.total_steps() > 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (timed_steps_++ == 0) first_step_ = now;
    if (timed_steps_ < kTimedSteps) return;
    const double step = std::chrono::duration<double>(now - first_step_).count() /
                        static_cast<double>(timed_steps_ - 1);
    const double left = options_.seconds - std::chrono::duration<double>(now - start_).count();
    trainer_.set_total_steps(trainer_.steps() +
                             static_cast<std::uint64_t>(std::max(0.0, left) / step));
  }

  void log_steps() {
    for (; logged_ < trainer_.log().size(); ++logged_) log_.append(trainer_.log()[logged_]);
  }

  // The log first: it is to hold what the checkpoint descends from.
  void save() {
    log_steps();
    CheckpointContent content = trainer_.checkpoint();
    content.state["log_bytes"] = log_.sync();
    write_checkpoint(out_, content);
    saved_ = trainer_.steps();
  }

  // After an error: the last completed step.
  void save_what_can_be() noexcept {
    if (trainer_.steps() == 0 || saved_ == trainer_.steps()) return;
    try {
      save();
      fmt::print(stderr, "the state after step {} is saved in {}\n", trainer_.steps(), out_);
    } catch (const std::exception& e) {
      fmt::print(stderr, "the state after step {} could not be saved: {}\n", trainer_.steps(),
                 e.what());
    }
  }

  // The trace of this run. That of the one before it in OUT stays beside it.
  std::string trace_path() const {
    const fs::path path = fs::path(out_) / "trace.json";
    if (session_.resumed && fs::exists(path))
      fs::rename(path, fs::path(out_) / fmt::format("trace-to-step-{}.json", trainer_.steps()));
    return path.string();
  }

  void write_files(const DflashRun& run) {
    write_file_atomically((fs::path(out_) / "plan.yaml").string(), write_plan(run.plan));
    write_file_atomically((fs::path(out_) / "timeline.svg").string(),
                          timeline_svg(run.header, run.spans));
  }

  void finish(DflashOutcome& outcome) {
    if (options_.evaluate) {
      use_all_cores();
      trainer_.release_target();
      fmt::print(stderr, "evaluating\n");
      scores_.push_back(evaluator_.score(trainer_));
      outcome.bigrams = evaluator_.bigrams(trainer_);
    }
    outcome.scores = scores_;
    outcome.data = trainer_.data_counts();
    outcome.grad_delay = options_.grad_delay;
    const nlohmann::ordered_json json = to_json(outcome);
    print_result(json, to_text(outcome), options_.json);
    const std::string html =
        options_.html.empty() ? (fs::path(out_) / "report.html").string() : options_.html;
    write_file_atomically(html, report_html(to_report(session_, outcome)));
    write_file_atomically((fs::path(out_) / "result.json").string(), json.dump(2) + "\n");
    fmt::print(stderr, "checkpoint, trace, plan and report: {}\n", out_);
  }

  const DflashSession& session_;
  const DflashOptions& options_;
  std::string out_;
  PlacedPlan placed_;
  DflashTrainer trainer_;
  DflashEvaluator evaluator_;
  StepsLog log_;
  ProgressLine progress_;
  std::vector<DrafterScore> scores_;
  std::uint64_t saved_ = 0, timed_steps_ = 0;
  std::size_t logged_ = 0;  // of trainer_.log()
  std::chrono::steady_clock::time_point start_, first_step_;
};

}  // namespace

int train_dflash(const DflashOptions& given) {
  catch_interrupts();
  DflashSession session = open_session(given);
  if (!session.options.dry_run) check_out(out_folder(session.options), session.options);
  check_memory(session);
  use_all_cores();
  std::shared_ptr<const Target> target = load_training_target(session);
  if (session.options.dry_run) return dry_run(session, std::move(target));
  if (session.options.compare) return compare(session, std::move(target));
  return Training(session, std::move(target)).run();
}

}  // namespace headrace
