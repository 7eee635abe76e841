// Runs a program under the model in every way that a strategy comes up with, up to the first failure.
#pragma once

#include <fmt/format.h>

#include <ctime>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "flow/explore/model.h"
#include "flow/explore/model_sync.h"

namespace headrace::explore {

// Makes its objects, gives the model its threads, calls model.run() and looks at the outcome. It
// must behave the same whenever the model does.
using Program = std::function<void(Model&)>;

struct Failure {
  std::string what;
  std::string schedule;               // a line a step
  std::vector<std::uint8_t> choices;  // for replay()
};

struct Outcome {
  std::uint64_t interleavings = 0;  // of a depth-first search: no two of them alike
  std::uint64_t redundant = 0;      // runs that turned out to be like others, not counted above
  bool complete = false;            // nothing is left within the strategy's bound
  double seconds = 0;               // of one core
  std::optional<Failure> failure;

  std::string text() const;
};

// "0*17,2,0*3": as a list, with repetitions counted.
inline std::string choices_text(const std::vector<std::uint8_t>& choices) {
  std::string text;
  for (std::size_t i = 0, end = 0; i < choices.size(); i = end) {
    while (end < choices.size() && choices[end] == choices[i]) ++end;
    text += fmt::format("{}{}", i == 0 ? "" : ",", choices[i]);
    if (end - i > 1) text += fmt::format("*{}", end - i);
  }
  return text;
}

inline std::vector<std::uint8_t> choices_of(const std::string& text) {
  std::vector<std::uint8_t> choices;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t star = part.find('*');
    const int times = star == std::string::npos ? 1 : std::stoi(part.substr(star + 1));
    choices.insert(choices.end(), times, static_cast<std::uint8_t>(std::stoi(part)));
  }
  return choices;
}

inline std::string Outcome::text() const {
  std::string text = fmt::format("{} interleavings{} in {:.2f} s, {:.0f} a second", interleavings,
                                 complete ? " (all there are within the bound)" : "", seconds,
                                 static_cast<double>(interleavings) / std::max(seconds, 1e-9));
  if (failure)
    text += fmt::format("\nfailure: {}\n{}choices to replay: {}\n", failure->what,
                        failure->schedule, choices_text(failure->choices));
  return text;
}

// One run; how it failed, if it did.
inline std::optional<std::string> run_once(Model& model, const Program& program) {
  try {
    program(model);
  } catch (const Failed& failed) {
    return failed.what();
  }
  if (model.alive() != 0) return fmt::format("{} objects leak", model.alive());
  return std::nullopt;
}

// The run with these choices, as a failure with a schedule, or nothing where it does not fail.
inline std::optional<Failure> replay(const std::vector<std::uint8_t>& choices,
                                     const Settings& settings, const Program& program) {
  Replay strategy(choices);
  strategy.next_run();
  Model model(strategy, settings, true);
  const auto what = run_once(model, program);
  if (!what) return std::nullopt;
  return Failure{*what, model.trace().text(model.names()), choices};
}

inline Outcome explore(Strategy& strategy, const Settings& settings, std::uint64_t most,
                       const Program& program) {
  Outcome outcome;
  const std::clock_t begin = std::clock();
  while (outcome.interleavings < most && !outcome.failure) {
    if (!strategy.next_run()) {
      outcome.complete = true;
      break;
    }
    std::vector<std::uint8_t> choices;
    std::optional<std::string> what;
    {
      Model model(strategy, settings, false);
      what = run_once(model, program);
      if (what) choices = model.choices();
    }
    ++(strategy.redundant() && !what ? outcome.redundant : outcome.interleavings);
    if (!what) continue;
    outcome.failure = replay(choices, settings, program);
    if (!outcome.failure || outcome.failure->what != *what)
      throw std::logic_error("the program does not do the same under the same schedule: " + *what);
  }
  outcome.seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  return outcome;
}

}  // namespace headrace::explore
