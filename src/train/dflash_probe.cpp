#include "train/dflash_probe.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include "headrace/error.h"
#include "headrace/executor.h"
#include "headrace/thread.h"
#include "nn/threads.h"
#include "train/dflash_run.h"

namespace headrace {
namespace {

constexpr std::uint64_t kFirings = 4;

// Runs pieces of work that know nothing of one another, each on a device and core of its own, until each has run
// kFirings times, and returns the median seconds of each, its first firing left out.
std::map<std::string, double> run_apart(
    const std::map<std::string, std::function<void(Context&)>>& pieces) {
  const std::vector<int> cores = allowed_cores();
  Plan plan;
  plan.name = "probe";
  plan.schedule.name = "async";
  ExecutorOptions options;
  options.on_worker_start = [](const std::string&) { set_compute_threads(1); };
  std::map<std::string, StageFunction> functions;
  std::atomic<std::size_t> unfinished = pieces.size();
  for (const auto& [name, piece] : pieces) {
    options.cores[name] = {cores[plan.stages.size() % cores.size()]};
    plan.resources.push_back({name, ResourceKind::device});
    plan.stages.push_back({.name = name, .on = {name}});
    // One that is done goes on while the others are measured beside it.
    functions[name] = [&piece = piece, &unfinished](Context& context) {
      if (context.firing.sequence == kFirings) --unfinished;
      if (context.firing.sequence >= kFirings && unfinished == 0) return false;
      piece(context);
      return true;
    };
  }
  Recorder recorder(trace_header(plan, plan.schedule));
  Executor executor(plan, plan.schedule, functions, options, &recorder);
  {
    const std::jthread watcher = stop_on_interrupt(executor);
    if (executor.run() == Outcome::stopped)
      fail(ErrorCode::cancelled, "stopped while measuring; nothing was written");
  }
  std::map<std::string, std::vector<double>> seconds;
  for (const Span& span : recorder.spans())
    if (span.kind != SpanKind::wait && span.sequence > 0 && span.sequence < kFirings)
      seconds[span.stage].push_back(static_cast<double>(span.end_ns - span.start_ns) / 1e9);
  std::map<std::string, double> medians;
  for (const auto& [name, values] : seconds) medians[name] = median(values);
  return medians;
}

}  // namespace

StageCosts probe_costs(const DflashSession& session, std::shared_ptr<const Target> frozen) {
  DflashTrainer trainer(session, std::move(frozen), 1);
  const auto batch = trainer.load();
  if (!batch) fail(ErrorCode::bad_input, "the data hold no row of at least three tokens");
  std::shared_ptr<const FeatureBatch> item;
  const auto target = [&](Context& context) { item = trainer.features(batch, context.stopping); };
  StageCosts costs;
  costs.alone = run_apart({{"target", target}});

  const std::shared_ptr<const FeatureBatch> fixed = item;
  const auto drafter = [&](Context&) { trainer.backward(0, *fixed); };
  const auto drafter_and_sync = [&](Context&) {
    trainer.backward(0, *fixed);
    trainer.update();
  };
  costs.alone["drafter"] = run_apart({{"drafter", drafter}}).at("drafter");
  costs.alone["sync"] =
      std::max(0.0, run_apart({{"both", drafter_and_sync}}).at("both") - costs.alone["drafter"]);

  double sum = 0;
  for (const auto& [name, seconds] : run_apart({{"target", target}, {"drafter", drafter}}))
    sum += std::max(1.0, seconds / costs.alone.at(name));
  costs.slowdown = sum / 2;
  return costs;
}

Plan with_probed_costs(Plan plan, const StageCosts& costs) {
  // A plan that an earlier run wrote has it already.
  std::erase_if(plan.resources, [](const Resource& resource) { return resource.name == "memory"; });
  for (Stage& stage : plan.stages) std::erase(stage.uses, "memory");
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
