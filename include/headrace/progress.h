// What may start now: the rules of a plan under a schedule as one state machine without a clock.
// The executor (flow) drives it with threads, the simulator (model) with predicted costs, so the
// two cannot disagree about capacities, resources or edges. Layer: plan. Not thread-safe: the
// caller locks.
//
// The firings of a stage start in the order of q = 0, 1, ... over the run; the step of q is q /
// per_step. A firing
//   - may start when its replica is free, the stage's edges and `after` are met, one item waits in
//     each input channel (in Order::sequence: item q, in order), and its devices and locks are
//     free;
//   - among the startable firings of a device the one with the smallest (step, level, stage) goes
//     first; a firing that waits only for its other devices keeps this one free for itself. A lock
//     goes to the smallest of the firings that could start with it;
//   - takes its inputs at the start, and delivers its outputs at the end: where an output channel
//     is full it keeps its devices and waits (back-pressured). In Order::sequence item q enters
//     after item q - 1. A stage that shares a device or lock with another starts only when its
//     outputs have room, since what empties them may need that device.
// The stream ends where a source finds no further batch, and with it what follows the source: a
// stage with inputs ends with its inputs; one without follows the stages that it comes `after`.
// A channel whose consumer has ended takes and drops further items.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headrace/plan.h"
#include "headrace/schedule.h"

namespace headrace {

struct Firing {
  std::size_t stage = 0;  // index into Plan::stages
  std::uint64_t replica = 0;
  std::uint64_t sequence = 0;  // q
  std::uint64_t step = 0;      // q / per_step
  bool operator==(const Firing&) const = default;
};

enum class WaitCause { starved, back_pressured, synchronising, host };
const char* to_string(WaitCause cause);

// Why a device cannot start anything now, for the trace.
struct Waiting {
  Firing firing;  // the device's next firing in order
  WaitCause cause = WaitCause::starved;
  std::optional<std::size_t> channel;  // of starved and back_pressured: index into Plan::channels
};

// The same in words, for the watchdog.
struct Blocked {
  Firing firing;  // the device's next firing in order
  WaitCause cause = WaitCause::starved;
  std::string channel;    // of starved and back_pressured
  std::string waits_for;  // words for the wait-for graph: "features: 4/4 items, 2.0 of 2.0 GiB"
};

class Progress {
 public:
  // `steps`: stop after that many steps (0: until a source ends). Error(bad_input) as validate().
  Progress(const Plan& plan, const std::vector<Edge>& edges, std::uint64_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The firing that device `resource` (index into Plan::resources, of kind device or host) may
  // start now as its owner. A stage that holds several devices is owned by the first of them.
  std::optional<Firing> startable(std::size_t resource) const;

  // Takes the inputs, occupies replica, devices and locks. Items leave a channel in the order in
  // which they entered. Returns, for each input channel, the sequence number of the item taken;
  // valid until the next start(). Precondition: startable(owner) == firing.
  const std::vector<std::uint64_t>& start(const Firing& firing);

  // Whether the outputs of a started firing fit now. `bytes`: size of the item for each output
  // channel. Error(bad_input) naming channel, size and bound where an item can never fit, or is
  // larger than the channel's item_bytes.
  bool can_finish(const Firing& firing, const std::vector<std::uint64_t>& bytes) const;

  // Whether the channel's consumer has ended, so that finish() drops what would enter it.
  bool drops(std::size_t channel) const;

  // Delivers the outputs and frees replica, devices and locks. Precondition: can_finish.
  void finish(const Firing& firing, const std::vector<std::uint64_t>& bytes);

  // A source stage found no batch for `firing` (which it had started): its stage ends before it,
  // and what depends on it downstream ends with it. The last step may hold fewer firings than
  // per_step.
  void end_of_stream(const Firing& firing);

  // Completed firings of a stage, and steps completed by all device stages (by all, where every
  // stage is on a host).
  std::uint64_t completed(std::size_t stage) const;
  std::uint64_t steps_completed() const;
  // Firings of `stage` that belong to `step` (fewer than per_step only in the last step; known once
  // the stream's end is known, per_step before).
  std::uint64_t firings_in_step(std::size_t stage, std::uint64_t step) const;

  bool device_done(std::size_t resource) const;  // nothing left for this device, ever
  bool done() const;

  // Only where startable() is empty and the device is neither busy nor done. A wait for a lock or
  // for other devices is `synchronising`, one for a host stage's step is `host`.
  Waiting waiting(std::size_t resource) const;
  WaitCause wait_cause(std::size_t resource) const { return waiting(resource).cause; }
  Blocked blocked(std::size_t resource) const;
  // Of a started firing whose outputs do not fit: the channel that it waits for, and the words.
  std::size_t full_channel(const Firing& firing, const std::vector<std::uint64_t>& bytes) const;
  Blocked back_pressure(const Firing& firing, const std::vector<std::uint64_t>& bytes) const;
  bool busy(std::size_t resource) const;

  // Changes of the plan while it runs, which lose no item and change no order.
  // From now on the channel holds so many items and bytes (0: no bound): not less than before.
  void widen(std::size_t channel, std::uint64_t items, std::uint64_t bytes);
  // One more replica of a stage that holds one host resource a replica and no lock, on a resource
  // that nothing uses.
  void add_replica(std::size_t stage, std::size_t resource);

  std::uint64_t items_in(std::size_t channel) const;
  std::uint64_t bytes_in(std::size_t channel) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headrace
