// `headrace analyze`: where the time of every device of a trace went. It reads the traces that
// Headrace writes.
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "headrace/accounting.h"
#include "headrace/atomic_file.h"
#include "headrace/quantity.h"
#include "headrace/report.h"
#include "headrace/trace_reader.h"

namespace headrace {
namespace {

struct Options {
  std::string trace, html;
  bool json = false;
};

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

// Why the numbers may mislead, in words; none where nothing is missing.
std::vector<std::string> doubts(const Trace& trace) {
  std::vector<std::string> reasons;
  if (trace.cut_off) reasons.push_back("the file is cut off: its last events are missing");
  if (trace.header.dropped > 0)
    reasons.push_back(
        fmt::format("the recorder was full: the first {} spans are missing", trace.header.dropped));
  return reasons;
}

void print_table(const Trace& trace, const Accounting& accounting) {
  fmt::print("schedule {}, {} steps, {} in all, {} a step (median)\n\n", trace.header.schedule,
             accounting.step_ends_ns.size(), format_seconds(seconds(accounting.host_span_ns())),
             format_seconds(seconds(accounting.median_step_ns())));
  fmt::print("{:<14}{:>8}{:>9}{:>16}{:>15}{:>8}{:>9}{:>8}\n", "device", "busy", "starved",
             "back-pressured", "synchronising", "host", "startup", "tail");
  const auto percent = [&](std::int64_t ns) {
    return fmt::format("{:.1f} %", 100 * accounting.share(ns));
  };
  for (const DeviceAccount& d : accounting.devices)
    fmt::print("{:<14}{:>8}{:>9}{:>16}{:>15}{:>8}{:>9}{:>8}\n", d.name, percent(d.busy_ns),
               percent(d.starved_ns), percent(d.back_pressured_ns), percent(d.synchronising_ns),
               percent(d.host_ns), percent(d.startup_ns), percent(d.tail_ns));
}

void print_json(const Trace& trace, const Accounting& accounting) {
  using nlohmann::ordered_json;
  ordered_json devices = ordered_json::array(), steps = ordered_json::array();
  for (std::size_t index = 0; index < accounting.devices.size(); ++index) {
    const DeviceAccount& d = accounting.devices[index];
    devices.push_back({{"host", "rank 0"},
                       {"index", index},
                       {"name", d.name},
                       {"span_ns", d.span_ns()},
                       {"busy_ns", d.busy_ns},
                       {"idle_ns", d.idle_ns()},
                       {"lead_in_ns", d.startup_ns},
                       {"tail_ns", d.tail_ns},
                       {"idle_by_cause",
                        {{"starved", d.starved_ns},
                         {"back_pressured", d.back_pressured_ns},
                         {"synchronising", d.synchronising_ns},
                         {"host", d.host_ns}}}});
  }
  for (const auto& [step, end_ns] : accounting.step_ends_ns) {
    ordered_json busy = ordered_json::array();
    for (const DeviceAccount& d : accounting.devices) {
      const auto found = d.busy_ns_by_step.find(step);
      busy.push_back(found == d.busy_ns_by_step.end() ? 0 : found->second);
    }
    steps.push_back({{"step", step}, {"end_ns", end_ns - accounting.start_ns}, {"busy_ns", busy}});
  }
  const std::vector<std::string> reasons = doubts(trace);
  const ordered_json result = {
      {"host_span_ns", accounting.host_span_ns()},
      {"devices", devices},
      {"steps", steps},
      {"trust", {{"grade", reasons.empty() ? "complete" : "incomplete"}, {"reasons", reasons}}}};
  fmt::print("{}\n", result.dump(2));
}

void write_html(const std::string& path, const Trace& trace, const Accounting& accounting) {
  Report report{.title = "Where the time went",
                .subtitle = fmt::format("schedule {}, plan {}", trace.header.schedule,
                                        trace.header.plan_hash)};
  report.figures = {{"step (median)", format_seconds(seconds(accounting.median_step_ns())), ""},
                    {"steps", std::to_string(accounting.step_ends_ns.size()), ""}};
  report.timelines = {{.title = "Timeline", .header = trace.header, .spans = trace.spans}};
  for (const DeviceAccount& d : accounting.devices)
    report.shares.push_back({d.name, accounting.share(d.busy_ns), accounting.share(d.starved_ns),
                             accounting.share(d.back_pressured_ns),
                             accounting.share(d.synchronising_ns), accounting.share(d.host_ns),
                             accounting.share(d.startup_ns), accounting.share(d.tail_ns)});
  report.notes = doubts(trace);
  write_file_atomically(path, report_html(report));
}

int analyze(const Options& options) {
  const Trace trace = read_trace(options.trace);
  if (trace.spans.empty())
    fail(ErrorCode::bad_input,
         "{}: the trace holds no spans: the run did not get to its first stage", options.trace);
  const Accounting accounting = account(trace.header, trace.spans);
  for (const std::string& reason : doubts(trace))
    fmt::print(stderr, "headrace: {}: {}\n", options.trace, reason);
  if (!options.html.empty()) write_html(options.html, trace, accounting);
  options.json ? print_json(trace, accounting) : print_table(trace, accounting);
  return 0;
}

}  // namespace

Action add_analyze(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand("analyze", "Show where the time of every device went");
  command.add_option("TRACE", options->trace, "A trace that Headrace wrote (trace.json)")
      ->required();
  command.add_flag("--json", options->json, "Print one JSON object");
  command.add_option("--html", options->html, "Write a page with the timeline to this file");
  return [options] { return analyze(*options); };
}

}  // namespace headrace
