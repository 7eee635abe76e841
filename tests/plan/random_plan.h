// Random plans that can run: stages in a DAG of channels and `after`, replicas, several devices a
// stage, hosts, locks and shared resources; every channel holds the items of one step.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

#include "headrace/plan.h"

namespace headrace {

struct RandomPlanOptions {
  bool after = true;       // ordering without data
  bool contention = true;  // locks, shared resources, hosts, several stages a device
};

inline int pick(int low, int high) {
  return *rc::gen::inRange(low, high + 1);
}

inline Plan random_plan(const RandomPlanOptions& options = {}) {
  Plan plan;
  plan.name = "random";
  const int stages = pick(1, 6);
  const int devices = options.contention ? pick(1, 4) : stages;
  const auto per_step = static_cast<std::uint64_t>(pick(1, 3));
  for (int i = 0; i < devices; ++i)
    plan.resources.push_back({"d" + std::to_string(i), ResourceKind::device, 1});
  if (options.contention) {
    plan.resources.push_back({"h", ResourceKind::host, 1});
    plan.resources.push_back({"lock", ResourceKind::lock, 1});
    plan.resources.push_back({"memory", ResourceKind::shared, 1.25});
  }
  for (int i = 0; i < stages; ++i) {
    Stage stage;
    stage.name = "s" + std::to_string(i);
    stage.per_step = per_step;
    stage.cost = Cost::of(pick(0, 8) * 0.125);
    if (pick(0, 3) == 0) stage.cost = {{0.25, 0.5, 1.5}, {}};
    if (pick(0, 5) == 0) stage.cost = {{}, {{0.0, 0.25}, {0.5, 0.5}, {1.0, 2.0}}};
    const int first = options.contention ? pick(0, devices - 1) : i;
    stage.on = {"d" + std::to_string(first)};
    if (options.contention) {
      switch (pick(0, 5)) {
        case 0:  // holds several devices
          for (int d = 0; d < devices; ++d)
            if (d != first && pick(0, 1) == 1) stage.on.push_back("d" + std::to_string(d));
          break;
        case 1:  // replicas, two of which may share a device
          stage.replicas = static_cast<std::uint64_t>(pick(2, 3));
          while (stage.on.size() < stage.replicas)
            stage.on.push_back("d" + std::to_string(pick(0, devices - 1)));
          break;
        case 2:
          stage.on = {"h"};
          break;
      }
      if (pick(0, 3) == 0) stage.uses.push_back("lock");
      if (pick(0, 3) == 0) stage.uses.push_back("memory");
    }
    plan.stages.push_back(stage);
  }
  for (int from = 0; from < stages; ++from)
    for (int to = 0; to < stages; ++to) {
      Stage& source = plan.stages[static_cast<std::size_t>(from)];
      Stage& sink = plan.stages[static_cast<std::size_t>(to)];
      if (from < to && pick(0, 2) == 0) {
        Channel channel;
        channel.name = "c" + std::to_string(plan.channels.size());
        channel.items = per_step + static_cast<std::uint64_t>(pick(0, 2));
        channel.item_bytes = static_cast<std::uint64_t>(pick(0, 3)) << 10;
        if (pick(0, 1) == 1) channel.bytes = per_step * channel.item_bytes;
        channel.order = pick(0, 2) == 0 ? Order::ready : Order::sequence;
        source.outputs.push_back(channel.name);
        sink.inputs.push_back(channel.name);
        plan.channels.push_back(channel);
      }
      if (options.after && pick(0, 7) == 0) {
        const auto lag = static_cast<std::uint64_t>(from < to ? pick(0, 2) : pick(1, 2));
        sink.after.push_back({source.name, lag});
      }
    }
  // A stage without data that comes after later stages might belong to no source.
  for (Stage& stage : plan.stages)
    if (stage.inputs.empty() && stage.outputs.empty())
      std::erase_if(stage.after, [&](const After& after) { return after.stage >= stage.name; });
  return plan;
}

}  // namespace headrace
