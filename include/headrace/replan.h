// Re-planning: after some steps the measured costs go into the model, and where it predicts enough
// gain the run goes on with deeper channels and more workers for stages of the host. Layer: flow.
//
// Only what can change while a plan runs, without losing an item or changing any result, is
// considered: more room in a channel, and further replicas of a stage on a host resource that the
// caller allows. In Order::sequence all items stay the same and in the same order.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "headrace/plan.h"

namespace headrace {

struct ReplanOptions {
  std::uint64_t after_steps = 0;  // steps to measure, at least 2; 0: never re-plan
  std::uint64_t items = 0;        // a channel may be made so deep, 1'000'000 at most; 0: none is
                                  // made deeper
  std::uint64_t bytes = 0;        // and so large; 0: a channel keeps its bound on bytes
  // Stage on a host resource -> the most workers it may have, up to 1024. Its function may then run for several
  // firings at once: it must find its item by Firing::sequence where the order matters.
  std::map<std::string, std::uint64_t> host_workers;
  double threshold = 0.05;  // change only where more than this share of the step's time goes
};

struct ReplanChange {
  std::string what;  // "items" or "bytes" of a channel, "workers" of a stage
  std::string name;
  std::uint64_t from = 0, to = 0;
  bool operator==(const ReplanChange&) const = default;
};

struct ReplanOutcome {
  std::uint64_t measured_steps = 0;   // 0: the run ended before all could be measured
  std::uint64_t applied_at_step = 0;  // steps completed then; 0: nothing was changed
  std::vector<ReplanChange> changes;  // those the model asks for
  std::string reason;                 // why nothing was changed; "" where it was
  double predicted_before = 0, predicted_after = 0;  // seconds a step, by the model
  // Seconds a step, by the clock: over the measured steps, and over those that came once the
  // deeper channels had had time to fill. 0: there were none.
  double measured_before = 0, measured_after = 0;
  Plan plan;  // with measured costs, and with the changes

  double predicted_gain() const;  // share of the step's time that goes, 0 to 1
  double measured_gain() const;   // 0 where unknown; below 0: it got slower
};

// What the model proposes for a plan whose costs are known: everything but applied_at_step and the
// measured times. The smallest change that gives, within 1 %, what all limits together would give.
// Error(bad_input) where the plan or a limit is invalid, Error(cancelled) once `stop` is triggered:
// it is looked at between simulations, which take some milliseconds.
ReplanOutcome propose_replan(const Plan& plan, const ScheduleText& schedule,
                             const ReplanOptions& options, const std::stop_token& stop = {});

// One line of words, and the object that docs/replan.md describes.
std::string to_text(const ReplanOutcome& outcome);
nlohmann::ordered_json to_json(const ReplanOutcome& outcome);

}  // namespace headrace
