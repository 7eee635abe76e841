// A plan: a graph of stages and bounded channels on resources. It is what Headrace runs, traces,
// predicts and audits. A schedule (schedule.h) adds ordering edges to it, nothing else.
// Layer: plan.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace headrace {

enum class ResourceKind {
  device,  // runs one stage at a time
  host,    // a background thread: schedules add no edges to its stages (every schedule prefetches)
  lock,    // held by a stage beside its device
  shared,  // stages that use it at the same time each take `slowdown` times as long
};

struct Resource {
  std::string name;
  ResourceKind kind = ResourceKind::device;
  double slowdown = 1.0;  // of `shared`, >= 1
  bool operator==(const Resource&) const = default;
};

// How long one firing takes, in seconds: a number, measured samples, or quantiles {probability:
// seconds}.
struct Cost {
  std::vector<double> samples;         // one entry: a plain number
  std::map<double, double> quantiles;  // used instead of samples where not empty

  static Cost of(double seconds) { return {{seconds}, {}}; }
  bool known() const { return !samples.empty() || !quantiles.empty(); }
  double mean() const;
  double at(double probability) const;  // inverse distribution function, 0 <= probability <= 1
  bool operator==(const Cost&) const = default;
};

// An entry of `after`: this stage's firing of step n waits for all firings of `stage` in step n -
// lag.
struct After {
  std::string stage;
  std::uint64_t lag = 0;  // written "stage" (0) or "stage@n-1" (1)
  bool operator==(const After&) const = default;
};

// Fires per_step times a step. With replicas = 1 it holds all of `on`; with replicas = r, `on`
// lists r resources and replica i runs on the i-th.
struct Stage {
  std::string name;
  std::vector<std::string> on;
  std::uint64_t replicas = 1;
  std::uint64_t per_step = 1;
  Cost cost;
  std::vector<std::string> inputs;   // channels: one item of each a firing
  std::vector<std::string> outputs;  // channels: one item into each a firing
  std::vector<After> after;
  std::vector<std::string> uses;  // locks and shared resources
  bool operator==(const Stage&) const = default;
};

enum class Order {
  sequence,  // firing q takes item q; replica q mod replicas: reproducible
  ready,     // whichever replica is free takes the next item
};

struct Channel {
  std::string name;
  std::uint64_t items = 1;       // bound, >= 1
  std::uint64_t bytes = 0;       // bound, 0: none
  std::uint64_t item_bytes = 0;  // size of the largest item where known, 0: unknown
  Order order = Order::sequence;
  bool operator==(const Channel&) const = default;
};

// The schedule as written; schedule.h turns it into edges.
struct EdgeText {
  std::string from, to;  // "stage@n" or "stage@n+k": `to` waits for `from`
  bool operator==(const EdgeText&) const = default;
};
struct ScheduleText {
  std::string name = "lockstep";                 // lockstep | overlapped | async | phases | edges
  std::vector<std::vector<std::string>> phases;  // of `phases`
  std::vector<EdgeText> edges;                   // of `edges`
  bool operator==(const ScheduleText&) const = default;
};

struct Plan {
  std::string name;
  std::vector<Resource> resources;
  std::vector<Stage> stages;  // in file order; the order breaks ties
  std::vector<Channel> channels;
  ScheduleText schedule;

  const Stage& stage(const std::string& name) const;  // Error(internal) where there is none
  const Resource& resource(const std::string& name) const;
  const Channel& channel(const std::string& name) const;
  bool operator==(const Plan&) const = default;
};

// Reads a plan. Error(bad_input) "FILE:LINE: KEY: what, value, fix" for unknown keys, bare numbers,
// negative or NaN costs, undefined names, duplicate names. Calls validate().
Plan read_plan(const std::string& path);
Plan parse_plan(const std::string& yaml, const std::string& name_for_messages);
std::string write_plan(const Plan& plan);  // YAML that parse_plan reads back to an equal plan

// Refuses what can never run, with the names involved: a cycle of data and same-step `after`, stages
// that no source feeds, a channel that no stage fills or none empties, more than one producer stage
// or consumer stage, per_step that differs across a channel, a capacity that cannot admit one item,
// replicas that do not match `on`, a bound on bytes without item_bytes where the producer shares
// its device or lock: it has to know before it starts that its item will fit.
void validate(const Plan& plan, const std::string& name_for_messages);

// FNV-1a over write_plan's text without costs, as 16 hex digits: ties a trace to its plan, also to
// one into which the costs that the trace shows were filled.
std::string plan_hash(const Plan& plan);

}  // namespace headrace
