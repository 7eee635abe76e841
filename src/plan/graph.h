// A plan's names resolved to indices: what schedules, Progress and the model compute on.
// Layer: plan.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "headrace/plan.h"
#include "headrace/schedule.h"

namespace headrace {

struct Graph {
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  struct After {
    std::size_t stage;
    std::uint64_t lag;
  };
  struct Node {
    std::vector<std::size_t> inputs, outputs;  // channels
    std::vector<std::size_t> on, uses;         // resources
    std::vector<After> after;
    bool host = false;  // runs on a host resource: schedules leave it alone
  };

  // Error(bad_input) names a stage, channel or resource that the plan does not define.
  explicit Graph(const Plan& plan);

  // The stages that `stage` waits for within its own step: producers of its inputs and `after` of
  // lag 0.
  std::vector<std::size_t> predecessors(std::size_t stage) const;

  // Whether another stage, or another replica of this one, needs one of its devices or locks.
  bool shares_device_or_lock(const Plan& plan, std::size_t stage) const;

  // Whether the stage may end the stream: it has no inputs, waits for nothing of its own step, and
  // is not there only to follow other stages (one that saves after each step makes nothing).
  bool is_source(std::size_t stage) const;

  // Whether whichever replica is free takes the next firing: the order of the stage's inputs
  // decides, of its outputs where it has none.
  bool any_replica(const Plan& plan, std::size_t stage) const;

  std::vector<Node> stages;
  std::vector<std::size_t> producer, consumer;  // of each channel; none where missing
};

// The stages ordered so that each stands behind its predecessors and behind the lag-0 edges into
// it, the first of the plan first. Error(bad_input) with the names of a cycle where there is no
// such order.
std::vector<std::size_t> topological_order(const Plan& plan, const Graph& graph,
                                           const std::vector<Edge>& edges = {});

}  // namespace headrace
