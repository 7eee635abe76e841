// Plans for the executor's tests, and stage functions that check what travels through them.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "headrace/executor.h"
#include "headrace/schedule.h"

namespace headrace::testing_plans {

// load (host) -> batches -> target -> features -> drafter -> sync, as training runs it: `replicas`
// of each role with a device each, one batch a drafter and step.
inline Plan training(std::uint64_t replicas, std::uint64_t items, Order order = Order::sequence) {
  Plan plan{.name = "training"};
  Stage load{.name = "load", .on = {"host"}, .per_step = replicas, .outputs = {"batches"}};
  Stage target{.name = "target",
               .replicas = replicas,
               .per_step = replicas,
               .inputs = {"batches"},
               .outputs = {"features"}};
  Stage drafter{.name = "drafter",
                .replicas = replicas,
                .per_step = replicas,
                .inputs = {"features"},
                .after = {{"sync", 1}}};
  Stage sync{.name = "sync", .after = {{"drafter", 0}}};
  plan.resources.push_back({"host", ResourceKind::host});
  for (std::uint64_t i = 0; i < replicas; ++i) {
    plan.resources.push_back({"t" + std::to_string(i)});
    plan.resources.push_back({"d" + std::to_string(i)});
    target.on.push_back("t" + std::to_string(i));
    drafter.on.push_back("d" + std::to_string(i));
    sync.on.push_back("d" + std::to_string(i));
  }
  for (Stage* stage : {&load, &target, &drafter, &sync}) stage->cost = Cost::of(0.001);
  plan.stages = {load, target, drafter, sync};
  plan.channels = {{.name = "batches", .items = items, .order = order},
                   {.name = "features", .items = items, .order = order}};
  return plan;
}

inline ScheduleText schedule(const std::string& name) {
  return {.name = name};
}

// Functions for any plan: sources count their items from 0 to `batches`; all others check that
// every input holds the same number, and pass it on. What each stage saw is kept.
class Counting {
 public:
  explicit Counting(std::uint64_t batches) : batches_(batches) {}

  // Called at the begin of each firing, e.g. to fail or to sleep.
  std::function<void(const std::string& stage, const Context&)> before = [](auto&&...) {};

  std::map<std::string, StageFunction> functions(const Plan& plan) {
    std::map<std::string, StageFunction> result;
    for (const Stage& stage : plan.stages)
      result[stage.name] = [this, name = stage.name](Context& context) {
        return fire(name, context);
      };
    return result;
  }

  std::vector<std::uint64_t> seen(const std::string& stage) const {
    const std::lock_guard lock(mutex_);
    const auto found = seen_.find(stage);
    return found == seen_.end() ? std::vector<std::uint64_t>() : found->second;
  }
  std::uint64_t mismatches() const { return mismatches_; }

 private:
  bool fire(const std::string& name, Context& context) {
    before(name, context);
    std::uint64_t value = context.firing.sequence;
    if (context.inputs.empty()) {
      if (!context.outputs.empty() && value >= batches_) return false;
    } else {
      value = context.input<std::uint64_t>();
    }
    for (std::size_t i = 1; i < context.inputs.size(); ++i)
      if (context.input<std::uint64_t>(i) != value) ++mismatches_;
    {
      const std::lock_guard lock(mutex_);
      seen_[name].push_back(value);
      if (!context.inputs.empty() && value != context.firing.sequence) ++mismatches_;
    }
    for (Item& output : context.outputs) output = {.payload = value, .bytes = 1};
    return true;
  }

  const std::uint64_t batches_;
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<std::uint64_t>> seen_;
  std::atomic<std::uint64_t> mismatches_ = 0;
};

// Lets the source of a plan go on until re-planning has decided, and for 20 batches more.
class UntilReplanned {
 public:
  UntilReplanned(const std::string& source, std::map<std::string, StageFunction> functions)
      : functions_(std::move(functions)) {
    StageFunction& load = functions_.at(source);
    load = [this, load](Context& context) {
      std::uint64_t unknown = UINT64_MAX;
      if (decided()) batches_.compare_exchange_strong(unknown, context.firing.sequence + 20);
      return context.firing.sequence < batches_ && load(context);
    };
  }
  const std::map<std::string, StageFunction>& functions() const { return functions_; }
  void watch(const Executor& executor) { executor_ = &executor; }
  std::uint64_t batches() const { return batches_; }  // UINT64_MAX: it never decided

 private:
  bool decided() const {
    const ReplanOutcome outcome = executor_->replanned().value();
    return outcome.applied_at_step > 0 || !outcome.reason.empty();
  }

  std::map<std::string, StageFunction> functions_;
  const Executor* executor_ = nullptr;
  std::atomic<std::uint64_t> batches_ = UINT64_MAX;
};

}  // namespace headrace::testing_plans
