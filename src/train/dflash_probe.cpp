#include "train/dflash_probe.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "headrace/error.h"
#include "headrace/executor.h"
#include "headrace/thread.h"
#include "nn/threads.h"
#include "train/dflash_run.h"

namespace headrace {
namespace {

constexpr std::uint64_t kFirings = 4;

// Runs stages that know nothing of one another, each on a device and core of its own, and returns
// their spans.
std::vector<Span> run_apart(const std::map<std::string, StageFunction>& functions) {
  const std::vector<int> cores = allowed_cores();
  Plan plan;
  plan.name = "probe";
  plan.schedule.name = "async";
  ExecutorOptions options;
  options.steps = kFirings;
  for (const auto& [name, function] : functions) {
    options.cores[name] = {cores[plan.stages.size() % cores.size()]};
    plan.resources.push_back({name, ResourceKind::device});
    plan.stages.push_back({.name = name, .on = {name}});
  }
  options.on_worker_start = [](const std::string&) { set_compute_threads(1); };
  Recorder recorder(trace_header(plan, plan.schedule));
  Executor(plan, plan.schedule, functions, options, &recorder).run();
  std::vector<Span> work;
  for (const Span& span : recorder.spans())
    if (span.kind != SpanKind::wait) work.push_back(span);
  return work;
}

double median_seconds(const std::vector<Span>& spans, const std::string& stage,
                      std::int64_t until_ns) {
  std::vector<double> seconds;
  for (const Span& span : spans)
    if (span.stage == stage && span.step > 0 && span.end_ns <= until_ns)
      seconds.push_back(static_cast<double>(span.end_ns - span.start_ns) / 1e9);
  return median(seconds);
}

}  // namespace

StageCosts probe_costs(const DflashSession& session, std::shared_ptr<const Target> frozen) {
  DflashTrainer trainer(session, std::move(frozen), 1);
  const auto batch = trainer.load();
  if (!batch) fail(ErrorCode::bad_input, "the data hold no row of at least three tokens");
  std::shared_ptr<const FeatureBatch> item;
  const StageFunction target = [&](Context& context) {
    item = trainer.features(batch, context.stopping);
    return true;
  };
  StageCosts costs;
  constexpr auto kAlways = std::numeric_limits<std::int64_t>::max();
  costs.alone["target"] = median_seconds(run_apart({{"target", target}}), "target", kAlways);

  const std::shared_ptr<const FeatureBatch> fixed = item;
  const StageFunction drafter = [&](Context&) {
    trainer.backward(0, *fixed);
    return true;
  };
  const StageFunction update = [&](Context&) {
    trainer.update();
    return true;
  };
  costs.alone["drafter"] = median_seconds(run_apart({{"drafter", drafter}}), "drafter", kAlways);
  costs.alone["sync"] = median_seconds(run_apart({{"sync", update}}), "sync", kAlways);

  // Both at once; what one does after the other has ended does not count.
  const std::vector<Span> both = run_apart({{"target", target}, {"drafter", drafter}});
  std::map<std::string, std::int64_t> last;
  for (const Span& span : both) last[span.stage] = std::max(last[span.stage], span.end_ns);
  const std::int64_t until = std::min(last["target"], last["drafter"]);
  double sum = 0;
  for (const char* stage : {"target", "drafter"})
    sum += std::max(1.0, median_seconds(both, stage, until) / costs.alone[stage]);
  costs.slowdown = sum / 2;
  return costs;
}

Plan with_probed_costs(Plan plan, const StageCosts& costs) {
  plan.resources.push_back({"memory", ResourceKind::shared, costs.slowdown});
  for (Stage& stage : plan.stages) {
    const auto cost = costs.alone.find(stage.name);
    if (cost == costs.alone.end()) {
      stage.cost = Cost::of(0);  // load: prefetched, and far below a step
      continue;
    }
    stage.cost = Cost::of(cost->second);
    stage.uses.push_back("memory");
  }
  return plan;
}

}  // namespace headrace
