#include "train/dflash_report.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "headrace/quantity.h"
#include "train/memory.h"

namespace headrace {
namespace {

constexpr std::size_t kSmoothed = 10;  // steps a point of the loss curve

std::vector<ReportShares> shares_of(const DflashRun& run, const std::string& prefix) {
  std::vector<ReportShares> shares;
  for (const DeviceAccount& device : run.accounting.devices) {
    const auto share = [&](std::int64_t ns) { return run.accounting.share(ns); };
    shares.push_back({prefix + device.name, share(device.busy_ns), share(device.starved_ns),
                      share(device.back_pressured_ns), share(device.synchronising_ns),
                      share(device.host_ns), share(device.startup_ns), share(device.tail_ns)});
  }
  return shares;
}

nlohmann::ordered_json devices_json(const DflashRun& run) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const ReportShares& s : shares_of(run, ""))
    devices.push_back({{"name", s.device},
                       {"busy", s.busy},
                       {"starved", s.starved},
                       {"back_pressured", s.back_pressured},
                       {"synchronising", s.synchronising},
                       {"host", s.host},
                       {"startup", s.startup},
                       {"tail", s.tail}});
  return devices;
}

// Keys of a run that both outcomes share.
nlohmann::ordered_json run_json(const DflashRun& run) {
  return {{"steps", run.steps},
          {"seconds", run.seconds},
          {"step_seconds_p50", run.step_seconds_p50},
          {"bound_seconds", run.bound_seconds},
          {"tokens_per_second", run.tokens_per_second()},
          {"schedule", run.name},
          {"loss_first", run.loss_first},
          {"loss_last", run.loss_last},
          {"weights_sha256", run.weights_sha256}};
}

ReportChart loss_chart(const std::vector<StepLog>& log) {
  ReportSeries series{"loss", {}, {}};
  for (std::size_t i = 0; i < log.size(); i += kSmoothed) {
    const std::size_t end = std::min(log.size(), i + kSmoothed);
    double sum = 0;
    for (std::size_t k = i; k < end; ++k) sum += log[k].loss;
    series.x.push_back(static_cast<double>(log[end - 1].step + 1));
    series.y.push_back(sum / static_cast<double>(end - i));
  }
  return {"Loss",
          "step",
          "weighted cross entropy",
          fmt::format("mean of {} steps a point", kSmoothed),
          {series}};
}

// Training acceptance of the first, middle and last slot, smoothed.
ReportChart acceptance_chart(const std::vector<StepLog>& log) {
  ReportChart chart{"Acceptance a slot",
                    "step",
                    "share of tokens",
                    "teacher-forced on the training data's tokens",
                    {}};
  const std::size_t slots = log.empty() ? 0 : log.front().counted.size();
  for (std::size_t k = 0; k < slots; ++k) {
    ReportSeries series{fmt::format("slot {}", k + 1), {}, {}};
    for (std::size_t i = 0; i < log.size(); i += kSmoothed) {
      const std::size_t end = std::min(log.size(), i + kSmoothed);
      double accepted = 0, counted = 0;
      for (std::size_t s = i; s < end; ++s) {
        accepted += log[s].accepted[k];
        counted += log[s].counted[k];
      }
      series.x.push_back(static_cast<double>(log[end - 1].step + 1));
      series.y.push_back(counted > 0 ? accepted / counted
                                     : std::numeric_limits<double>::quiet_NaN());
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

ReportChart tau_chart(const std::vector<DrafterScore>& scores) {
  ReportChart chart{
      "Tau", "tokens trained on", "tokens a verify pass", "over the 64 evaluation prompts", {}};
  ReportSeries all{"all prompts", {}, {}}, no_loops{"without looping continuations", {}, {}},
      held_out{"held-out files", {}, {}};
  for (const DrafterScore& score : scores) {
    for (ReportSeries* series : {&all, &no_loops, &held_out})
      series->x.push_back(static_cast<double>(score.tokens));
    all.y.push_back(score.tau);
    no_loops.y.push_back(score.tau_without_loops);
    held_out.y.push_back(score.tau_heldout.value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  chart.series = {all, no_loops, held_out};
  return chart;
}

ReportTable score_table(const DrafterScore& score, const std::optional<BigramScore>& bigrams) {
  ReportTable table{
      "Tokens a verify pass",
      "48 new tokens after each of 64 prompts; a table of bigrams is what a drafter must beat",
      {"", "all", "without loops", "code", "prose", "held-out files"},
      {}};
  const auto optional = [](std::optional<double> value) {
    return value ? fmt::format("{:.3f}", *value) : std::string("-");
  };
  table.rows.push_back({"drafter", fmt::format("{:.3f}", score.tau),
                        fmt::format("{:.3f}", score.tau_without_loops),
                        fmt::format("{:.3f}", score.tau_code),
                        fmt::format("{:.3f}", score.tau_prose), optional(score.tau_heldout)});
  if (bigrams) {
    table.rows.push_back({"bigrams of the tokens trained on",
                          fmt::format("{:.3f}", bigrams->trained),
                          fmt::format("{:.3f}", bigrams->trained_without_loops), "", "",
                          optional(bigrams->trained_heldout)});
    table.rows.push_back(
        {"bigrams of the whole corpus", fmt::format("{:.3f}", bigrams->corpus), "", "", "", ""});
  }
  return table;
}

std::string session_subtitle(const DflashSession& session) {
  const DflashOptions& o = session.options;
  return fmt::format(
      "{}; {} target and {} drafter devices; {} rows of {} tokens, {} anchors a row, block {}, {} "
      "layers, {} taps",
      session.target_path.substr(session.target_path.rfind('/') + 1), o.targets, o.drafters,
      o.batch, o.length, o.anchors, o.block, o.layers, o.taps);
}

}  // namespace

nlohmann::ordered_json to_json(const DflashOutcome& outcome) {
  nlohmann::ordered_json json = run_json(outcome.run);
  if (!outcome.scores.empty()) {
    const DrafterScore& score = outcome.scores.back();
    json["tau"] = score.tau;
    json["tau_without_loops"] = score.tau_without_loops;
    json["tau_code"] = score.tau_code;
    json["tau_prose"] = score.tau_prose;
    if (score.tau_heldout) json["tau_heldout"] = *score.tau_heldout;
    json["acceptance"] = score.acceptance;
    nlohmann::ordered_json curve = nlohmann::ordered_json::array();
    for (const DrafterScore& s : outcome.scores)
      curve.push_back({{"step", s.step},
                       {"tokens", s.tokens},
                       {"tau", s.tau},
                       {"tau_without_loops", s.tau_without_loops},
                       {"tau_heldout", s.tau_heldout ? nlohmann::ordered_json(*s.tau_heldout)
                                                     : nlohmann::ordered_json()}});
    json["curve"] = curve;
  }
  if (outcome.bigrams) {
    json["tau_bigram"] = {{"trained", outcome.bigrams->trained},
                          {"trained_without_loops", outcome.bigrams->trained_without_loops},
                          {"corpus", outcome.bigrams->corpus}};
    if (outcome.bigrams->trained_heldout)
      json["tau_bigram"]["trained_heldout"] = *outcome.bigrams->trained_heldout;
  }
  if (!outcome.log.empty()) json["tokens"] = outcome.log.back().tokens;
  json["grad_delay"] = outcome.grad_delay;
  json["data"] = {{"files", outcome.data.files},
                  {"held_out_files", outcome.data.held_out_files},
                  {"bytes", outcome.data.bytes},
                  {"invalid_utf8_bytes", outcome.data.invalid_utf8_bytes}};
  json["peak_memory_bytes"] = peak_memory_bytes();
  json["devices"] = devices_json(outcome.run);
  if (outcome.run.replan) json["replan"] = to_json(*outcome.run.replan);
  return json;
}

std::string to_text(const DflashOutcome& outcome) {
  const DflashRun& run = outcome.run;
  std::string text =
      fmt::format("{} steps in {:.1f} s, {} a step (bound {}), {:.0f} tokens/s, schedule {}\n",
                  run.steps, run.seconds, format_seconds(run.step_seconds_p50, 3),
                  format_seconds(run.bound_seconds, 3), run.tokens_per_second(), run.name);
  text += fmt::format("loss {:.3f} -> {:.3f}, peak memory {:.2f} GiB, weights {:.12}\n",
                      run.loss_first, run.loss_last,
                      static_cast<double>(peak_memory_bytes()) / (1u << 30), run.weights_sha256);
  if (run.replan) text += to_text(*run.replan) + "\n";
  for (const ReportShares& s : shares_of(run, ""))
    text += fmt::format(
        "{:8} busy {:5.1f} %  starved {:4.1f}  back-pressured {:4.1f}  synchronising {:4.1f}  host "
        "{:4.1f}  startup {:4.1f}  tail {:4.1f}\n",
        s.device, 100 * s.busy, 100 * s.starved, 100 * s.back_pressured, 100 * s.synchronising,
        100 * s.host, 100 * s.startup, 100 * s.tail);
  if (!outcome.scores.empty()) {
    const DrafterScore& score = outcome.scores.back();
    text += fmt::format(
        "tau {:.3f} ({:.3f} without the {} looping prompts; code {:.3f}, prose {:.3f}", score.tau,
        score.tau_without_loops, score.looping, score.tau_code, score.tau_prose);
    if (score.tau_heldout) text += fmt::format("; held-out files {:.3f}", *score.tau_heldout);
    text += ")\n";
    text += fmt::format("acceptance a slot {:.3f}\n", fmt::join(score.acceptance, " "));
  }
  if (outcome.bigrams)
    text += fmt::format(
        "bigram table over the tokens trained on: tau {:.3f}; over the whole corpus: {:.3f}\n",
        outcome.bigrams->trained, outcome.bigrams->corpus);
  return text;
}

Report to_report(const DflashSession& session, const DflashOutcome& outcome) {
  const DflashRun& run = outcome.run;
  Report report;
  report.title = "Drafter training";
  report.subtitle = session_subtitle(session);
  report.figures = {
      {"steps", std::to_string(run.steps), fmt::format("{} schedule", run.name)},
      {"step", format_seconds(run.step_seconds_p50, 3),
       fmt::format("bound {}", format_seconds(run.bound_seconds, 3))},
      {"tokens/s", fmt::format("{:.0f}", run.tokens_per_second()), "of the target's input"},
      {"loss", fmt::format("{:.3f}", run.loss_last), fmt::format("from {:.3f}", run.loss_first)},
      {"peak memory",
       fmt::format("{:.2f} GiB", static_cast<double>(peak_memory_bytes()) / (1u << 30)),
       "libtorch included"}};
  if (!outcome.scores.empty())
    report.figures.insert(
        report.figures.begin(),
        {"tau", fmt::format("{:.3f}", outcome.scores.back().tau), "tokens a verify pass"});
  if (run.steps > 0) {  // else it was only evaluated
    report.timelines = {{fmt::format("Devices, {}", run.name), "", run.header, run.spans}};
    report.shares = shares_of(run, "");
    report.charts = {loss_chart(outcome.log), acceptance_chart(outcome.log)};
  }
  if (outcome.scores.size() > 1) report.charts.push_back(tau_chart(outcome.scores));
  if (!outcome.scores.empty())
    report.tables = {score_table(outcome.scores.back(), outcome.bigrams)};
  report.notes = {
      "Two cores stand in for two GPUs: the picture shows schedules, not a gain for CPUs.",
      "Acceptance in training is judged among the tokens of the training softmax.",
      outcome.grad_delay == 0 ? "No gradient is delayed."
                              : "Each gradient is applied one step late."};
  if (run.replan) report.notes.push_back(to_text(*run.replan));
  return report;
}

void print_result(const nlohmann::ordered_json& json, const std::string& text, bool as_json) {
  if (as_json)
    fmt::print("{}\n", json.dump());
  else
    fmt::print("{}", text);
}

nlohmann::ordered_json to_json(const Comparison& comparison) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const auto& [run, predicted] : comparison.runs) {
    nlohmann::ordered_json json = run_json(run);
    if (predicted > 0) json["predicted_seconds"] = predicted;
    json["devices"] = devices_json(run);
    runs.push_back(json);
  }
  return {{"runs", runs},
          {"costs_alone", comparison.costs.alone},
          {"slowdown", comparison.costs.slowdown},
          {"speedup", comparison.speedup()},
          {"same_weights", comparison.same_weights},
          {"placement_distance", comparison.placement_distance},
          {"peak_memory_bytes", peak_memory_bytes()}};
}

Report to_report(const DflashSession& session, const Comparison& comparison) {
  Report report;
  report.title = "Schedules side by side";
  report.subtitle = session_subtitle(session);
  report.figures = {
      {"async over lock-step", fmt::format("{:.2f}x", comparison.speedup()),
       "measured, one core a device"},
      {"slow-down", fmt::format("{:.2f}x", comparison.costs.slowdown), "while both cores work"},
      {"weights", comparison.same_weights ? "same bits" : "differ", "under the three schedules"}};
  for (const auto& [run, predicted] : comparison.runs) {
    report.timelines.push_back({run.name,
                                fmt::format("{} a step", format_seconds(run.step_seconds_p50, 3)),
                                run.header, run.spans});
    for (ReportShares& shares : shares_of(run, run.name + " "))
      report.shares.push_back(std::move(shares));
    report.schedules.push_back({run.name, run.step_seconds_p50,
                                predicted > 0 ? std::optional(predicted) : std::nullopt,
                                run.bound_seconds});
  }
  report.notes = {
      "Predicted from each stage's cost alone and the slow-down while both cores work.",
      "lockstep_allcores is another placement: both cores for each stage in turn.",
      "Two cores stand in for two GPUs: the picture shows schedules, not a gain for CPUs."};
  return report;
}

}  // namespace headrace
