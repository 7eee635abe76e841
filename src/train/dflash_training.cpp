#include "train/dflash_training.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "headrace/atomic_file.h"
#include "headrace/error.h"
#include "plan/files.h"
#include "train/dflash_report.h"
#include "train/interrupt.h"
#include "train/progress_line.h"
#include "train/steps_log.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

// With --seconds the number of steps is fixed after so many, from their median time.
constexpr std::uint64_t kTimedSteps = 12;

// One training run with its folder.
class Training {
 public:
  Training(const DflashSession& session, std::shared_ptr<const Target> target,
           const std::string& out)
      : session_(session),
        options_(session.options),
        out_(out),
        placed_(wanted_plan(options_, session.feature_bytes())),
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
      // Also beside the trace of a run that is killed. At the end come the measured costs.
      write_plan_file(placed_.plan);
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
    log_.lock();
    if (!from.newest.empty() && newest_step(out_) != from.newest)
      fail(ErrorCode::resource, "{}: another run wrote here meanwhile: --resume it again", out_);
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

  // The trace of this run. That of the run before it in OUT stays beside it; where it cannot, this
  // one is not streamed.
  std::string trace_path() const {
    const fs::path out(out_), path = out / "trace.json";
    std::error_code error;
    if (!session_.resumed || !fs::exists(path, error)) return path.string();
    fs::path kept;
    for (int k = 1; kept.empty() || fs::exists(kept, error); ++k)
      kept = out / fmt::format("trace-{}.json", k);
    fs::rename(path, kept, error);
    if (!error) return path.string();
    fmt::print(stderr, "headrace: {}: cannot be renamed to {} ({}): this run writes no trace\n",
               path.string(), kept.string(), error.message());
    return "";
  }

  void write_plan_file(const Plan& plan) const {
    write_file_atomically((fs::path(out_) / "plan.yaml").string(), write_plan(plan));
  }

  void write_files(const DflashRun& run) const {
    write_plan_file(run.plan);
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

int train_into(const std::string& out, const DflashSession& session,
               std::shared_ptr<const Target> target) {
  return Training(session, std::move(target), out).run();
}

}  // namespace headrace
