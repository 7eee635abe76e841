// The state of Progress: counters over integer indices, because a simulation of a million events
// has to take about a second. Layer: plan.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "headrace/progress.h"
#include "plan/graph.h"

namespace headrace {

struct Progress::State {
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  // Firings of a stage start in the order of q, so `started` numbers the next one. `completed`
  // counts the firings before the first that still runs: those an edge may rely on.
  struct StageState {
    std::size_t level = 0;
    std::uint64_t per_step = 1;
    std::uint64_t end = unlimited;  // firings in all, known once the stream's end is known
    std::uint64_t started = 0, completed = 0;
    std::uint64_t next_step = 0;      // step of firing `started`
    std::uint64_t next_step_end = 1;  // first firing of the step after
    bool any_replica = false;         // whichever replica is free takes the next firing
    bool counts = true;  // towards steps_completed(): not on a host, where others are not
    // It starts only where its outputs have room: a stage that shares a device or lock may not wait
    // with finished work in its hands, since what empties its channel could need that device. A
    // stage that has its devices to itself starts at once and may wait at its end.
    bool reserves = false;
    std::vector<Edge> waits_for;         // `after` and the schedule's edges into this stage
    std::vector<std::uint64_t> running;  // of each replica: its firing, or unlimited
    std::vector<std::vector<std::size_t>> holds;  // of each replica: devices, the owner first
    std::vector<std::size_t> locks;
  };

  struct Item {
    std::uint64_t sequence, bytes;
  };
  struct ChannelState {
    std::deque<Item> items;
    std::uint64_t bytes = 0;
    std::uint64_t promised = 0;  // items that reserving firings will deliver
  };

  // A device's candidates: the replicas that run on it.
  struct Candidate {
    std::size_t stage;
    std::uint64_t replica;
  };

  // Why a stage's next firing cannot start, the first reason in the order of the checks.
  struct Obstacle {
    WaitCause cause;
    std::size_t channel = Graph::none;   // empty input or full output
    const Edge* edge = nullptr;          // unmet
    std::size_t resource = Graph::none;  // lock in use
  };

  State(const Plan& plan, const std::vector<Edge>& edges, std::uint64_t steps);

  // The firing that this replica takes next: q + k with k < replicas. With any_replica, q itself.
  std::uint64_t next_of(const StageState& stage, std::uint64_t replica) const;
  auto key(std::size_t stage) const {
    return std::tuple(stages[stage].next_step, stages[stage].level, stage);
  }
  bool replica_ready(const Candidate& candidate) const;
  // All that is needed but the devices; `obstacle` is filled where given.
  bool ready_but_for_devices(std::size_t stage, Obstacle* obstacle = nullptr) const;
  bool edge_met(const Edge& edge, std::uint64_t step) const;
  bool has_room(std::size_t channel) const;
  // Whether a started firing has to let an earlier one deliver first.
  bool out_of_turn(const Firing& firing, std::size_t channel) const;
  bool full(std::size_t channel, std::uint64_t bytes) const;  // for an item of so many bytes
  // Nobody will take from the channel any more: further items are dropped.
  bool closed(std::size_t channel) const;
  // The candidate that the device has to serve next among those that are ready but for devices.
  std::optional<Candidate> first_ready(std::size_t resource) const;
  bool devices_free(const Candidate& candidate) const;
  // Whether a firing before this one in order waits for one of its locks and could start with it.
  bool lock_is_due_elsewhere(const Candidate& candidate) const;
  // The candidate that comes next in order, ready or not.
  std::optional<Candidate> first_pending(std::size_t resource) const;

  void release(const Firing& firing);
  void update_completed(StageState& stage);
  void settle_ends();
  std::uint64_t following_end(std::size_t stage) const;

  Plan plan;
  Graph graph;
  std::vector<StageState> stages;
  std::vector<ChannelState> channels;
  std::vector<std::uint64_t> taken;                // what start() returns
  std::vector<bool> held;                          // of each resource
  std::vector<std::vector<Candidate>> candidates;  // of each device or host: what runs on it
  std::vector<std::vector<Candidate>> lock_users;  // of each lock
};

}  // namespace headrace
