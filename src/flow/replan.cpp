#include "headrace/replan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "flow/replan_plan.h"
#include "headrace/error.h"
#include "headrace/quantity.h"
#include "headrace/simulator.h"
#include "plan/validate.h"

namespace headrace {
namespace {

constexpr double kGoodEnough = 1.01;          // times the step with all limits used
constexpr std::uint64_t kMostWorkers = 1024;  // of a stage: each is a thread

// Something that may grow: a channel's items, or a stage's workers.
struct Knob {
  bool workers = false;
  std::size_t index = 0;  // of the stage or channel
  std::uint64_t now = 0, most = 0;
};

std::uint64_t deepest(const Channel& channel, const ReplanOptions& options) {
  const std::uint64_t bytes = std::max(options.bytes, channel.bytes);
  std::uint64_t items = options.items;
  if (bytes > 0 && channel.item_bytes > 0) items = std::min(items, bytes / channel.item_bytes);
  return std::max(items, channel.items);
}

// Workers first: to do without a thread saves more than to do without room.
std::vector<Knob> knobs_of(const Plan& plan, const ReplanOptions& options) {
  std::vector<Knob> knobs;
  for (std::size_t i = 0; i < plan.stages.size(); ++i)
    if (const auto limit = options.host_workers.find(plan.stages[i].name);
        limit != options.host_workers.end() && limit->second > plan.stages[i].replicas)
      knobs.push_back({true, i, plan.stages[i].replicas, limit->second});
  for (std::size_t i = 0; i < plan.channels.size(); ++i)
    if (const std::uint64_t most = deepest(plan.channels[i], options);
        most > plan.channels[i].items)
      knobs.push_back({false, i, plan.channels[i].items, most});
  return knobs;
}

void turn(Plan& plan, const Knob& knob, std::uint64_t value) {
  if (!knob.workers) {
    Channel& channel = plan.channels[knob.index];
    channel.items = value;
    if (channel.bytes > 0) channel.bytes = std::max(channel.bytes, value * channel.item_bytes);
    return;
  }
  Stage& stage = plan.stages[knob.index];
  for (; stage.replicas < value; ++stage.replicas)
    stage.on.push_back(worker_name(stage.name, stage.replicas));
}

Plan turned(Plan plan, const std::vector<Knob>& knobs, const std::vector<std::uint64_t>& values) {
  for (std::size_t i = 0; i < knobs.size(); ++i) turn(plan, knobs[i], values[i]);
  return plan;
}

double step_seconds(const Plan& plan, const ScheduleText& schedule, const std::stop_token& stop) {
  if (stop.stop_requested()) fail(ErrorCode::cancelled, "stopped while the model was asked");
  std::uint64_t firings = 0;
  for (const Stage& stage : plan.stages) firings += stage.per_step;
  // Enough steps for rare costs to be drawn, in some milliseconds.
  const std::uint64_t steps = std::clamp<std::uint64_t>(10'000 / firings, 50, 500);
  return simulate(plan, schedule, {.steps = steps, .keep_spans = false}).step_seconds;
}

double saved(double before, double after) {
  return before > 0 ? 1 - after / before : 0;
}

std::vector<ReplanChange> changes_between(const Plan& before, const Plan& after) {
  std::vector<ReplanChange> changes;
  const auto note = [&](const char* what, const std::string& name, std::uint64_t from,
                        std::uint64_t to) {
    if (from != to) changes.push_back({what, name, from, to});
  };
  for (std::size_t i = 0; i < before.stages.size(); ++i)
    note("workers", before.stages[i].name, before.stages[i].replicas, after.stages[i].replicas);
  for (std::size_t i = 0; i < before.channels.size(); ++i) {
    const Channel &from = before.channels[i], &to = after.channels[i];
    note("items", from.name, from.items, to.items);
    note("bytes", from.name, from.bytes, to.bytes);
  }
  return changes;
}

std::string words(const ReplanChange& change) {
  if (change.what == "bytes")
    return fmt::format("{} bytes {} -> {}", change.name, format_bytes(change.from),
                       format_bytes(change.to));
  return fmt::format("{} {} {} -> {}", change.name, change.what, change.from, change.to);
}

}  // namespace

std::string worker_name(const std::string& stage, std::uint64_t replica) {
  return fmt::format("{}.{}", stage, replica);
}

Plan with_spare_workers(Plan given, const ReplanOptions& options) {
  Plan plan = validated(std::move(given));
  if (options.after_steps == 1)
    fail(ErrorCode::bad_input, "replan.after_steps: 1 step measures nothing; give 2 or more");
  if (options.items > max_count)
    fail(ErrorCode::bad_input, "replan.items: {} is above {}", options.items, max_count);
  for (const auto& [name, most] : options.host_workers) {
    const auto is = [&name = name](const auto& thing) { return thing.name == name; };
    const auto stage = std::find_if(plan.stages.begin(), plan.stages.end(), is);
    const auto refuse = [&name = name](const std::string& why) {
      fail(ErrorCode::bad_input, "replan.host_workers: {} {}", name, why);
    };
    if (stage == plan.stages.end()) refuse("is no stage");
    if (plan.resource(stage->on.front()).kind != ResourceKind::host)
      refuse("is not on a host resource: its devices are given");
    if (stage->on.size() != stage->replicas) refuse("holds several resources at once");
    for (const std::string& used : stage->uses)
      if (plan.resource(used).kind == ResourceKind::lock) refuse("holds lock " + used);
    if (most > kMostWorkers) refuse(fmt::format("may have {} workers at most", kMostWorkers));
    for (std::uint64_t replica = stage->replicas; replica < most; ++replica) {
      Resource spare{worker_name(name, replica), ResourceKind::host};
      for (const Resource& resource : plan.resources)
        if (resource.name == spare.name)
          refuse("needs the name " + spare.name + ", which is taken");
      plan.resources.push_back(std::move(spare));
    }
  }
  return plan;
}

ReplanOutcome propose_replan(const Plan& plan, const ScheduleText& schedule,
                             const ReplanOptions& options, const std::stop_token& stop) {
  const Plan base = with_spare_workers(plan, options);
  const std::vector<Knob> knobs = knobs_of(base, options);
  ReplanOutcome outcome;
  outcome.plan = plan;
  outcome.predicted_before = outcome.predicted_after = step_seconds(base, schedule, stop);
  if (knobs.empty()) {
    outcome.reason = "the limits leave nothing to change";
    return outcome;
  }
  std::vector<std::uint64_t> values;
  for (const Knob& knob : knobs) values.push_back(knob.most);
  const auto predict = [&] { return step_seconds(turned(base, knobs, values), schedule, stop); };
  outcome.predicted_after = predict();
  if (outcome.predicted_gain() <= options.threshold) {
    outcome.reason =
        fmt::format("the model predicts {:.1f} % at most, and {:.1f} % is asked for",
                    100 * std::max(0.0, outcome.predicted_gain()), 100 * options.threshold);
    return outcome;
  }
  // Everything is given; now each gives back what it does not need.
  const double allowed = std::min(kGoodEnough * outcome.predicted_after,
                                  (1 - options.threshold) * outcome.predicted_before);
  for (std::size_t i = 0; i < knobs.size(); ++i) {
    std::uint64_t low = knobs[i].now, high = values[i];
    while (low < high) {
      values[i] = low + (high - low) / 2;
      if (predict() <= allowed)
        high = values[i];
      else
        low = values[i] + 1;
    }
    values[i] = high;
  }
  outcome.predicted_after = predict();
  outcome.plan = turned(base, knobs, values);
  outcome.changes = changes_between(base, outcome.plan);
  std::erase_if(outcome.plan.resources, [&](const Resource& resource) {  // spares not called for
    const auto uses = [&](const Stage& stage) {
      return std::find(stage.on.begin(), stage.on.end(), resource.name) != stage.on.end();
    };
    const auto given = std::find(plan.resources.begin(), plan.resources.end(), resource);
    return given == plan.resources.end() &&
           std::none_of(outcome.plan.stages.begin(), outcome.plan.stages.end(), uses);
  });
  return outcome;
}

double ReplanOutcome::predicted_gain() const {
  return saved(predicted_before, predicted_after);
}

double ReplanOutcome::measured_gain() const {
  return measured_after > 0 ? saved(measured_before, measured_after) : 0;
}

std::string to_text(const ReplanOutcome& outcome) {
  if (outcome.applied_at_step == 0) return "not re-planned: " + outcome.reason;
  std::vector<std::string> changes;
  for (const ReplanChange& change : outcome.changes) changes.push_back(words(change));
  const std::string measured =
      outcome.measured_after == 0
          ? "the run ended before that could be measured"
          : fmt::format("measured {:.1f} % ({} -> {})", 100 * outcome.measured_gain(),
                        format_seconds(outcome.measured_before, 3),
                        format_seconds(outcome.measured_after, 3));
  return fmt::format("re-planned after step {}: {}; {:.1f} % less time a step predicted, {}",
                     outcome.applied_at_step, fmt::join(changes, ", "),
                     100 * outcome.predicted_gain(), measured);
}

nlohmann::ordered_json to_json(const ReplanOutcome& outcome) {
  nlohmann::ordered_json changes = nlohmann::ordered_json::array();
  for (const ReplanChange& change : outcome.changes)
    changes.push_back(
        {{"what", change.what}, {"name", change.name}, {"from", change.from}, {"to", change.to}});
  return {{"measured_steps", outcome.measured_steps},
          {"applied_at_step", outcome.applied_at_step},
          {"changes", changes},
          {"reason", outcome.reason},
          {"predicted_step_seconds",
           {{"before", outcome.predicted_before}, {"after", outcome.predicted_after}}},
          {"predicted_gain", outcome.predicted_gain()},
          {"measured_step_seconds",
           {{"before", outcome.measured_before}, {"after", outcome.measured_after}}},
          {"measured_gain", outcome.measured_gain()}};
}

}  // namespace headrace
