// How an explorer chooses among what may happen next: every way within a bound, at random, or as
// in a recorded run.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace headrace::explore {

// Who may take the next step: thread t, or the store buffer of thread t as kThreads + t.
using Actor = std::uint8_t;
inline constexpr unsigned kThreads = 8;

struct Option {
  Actor actor;
  // 0: the ordinary course (the running thread goes on, its stores become visible at once). 1: a
  // preemption, a store held back, a deadline that passes while others could go on.
  std::uint8_t cost;
};

// What a strategy may ask about the steps that the actors are about to take.
class Steps {
 public:
  virtual ~Steps() = default;
  // Whether the two steps, of different actors, lead to the same state in either order.
  virtual bool independent(Actor a, Actor b) const = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // Before each run; false: all there is has been run.
  virtual bool next_run() = 0;
  // An index of `options`; the first is the ordinary course.
  virtual unsigned pick(std::span<const Option> options, const Steps& steps) = 0;
  // Whether pick() takes the first option wherever the others cost something.
  virtual bool only_ordinary() const { return false; }
  // One of `count` outcomes of a step; 0 is the ordinary one.
  virtual unsigned choose(unsigned count) = 0;
  // Whether the run is one that was explored before, up to the order of independent steps.
  virtual bool redundant() const { return false; }
};

// Every schedule whose options cost at most `budget` together, each exactly once.
class DepthFirst : public Strategy {
 public:
  static constexpr unsigned kUnbounded = ~0u;

  // With no bound, schedules that differ in the order of independent steps alone are run once
  // (sleep sets: P. Godefroid, 1996). A bound and sleep sets do not go together: the schedule that
  // stands for the others may be one over the bound.
  explicit DepthFirst(unsigned budget) : budget_(budget) {}

  bool next_run() override {
    if (started_) {
      while (!nodes_.empty() && nodes_.back().picked + 1 == nodes_.back().count) nodes_.pop_back();
      if (nodes_.empty()) return false;
      ++nodes_.back().picked;
    }
    started_ = true;
    depth_ = 0;
    left_ = budget_;
    asleep_ = 0;
    redundant_ = false;
    return true;
  }

  unsigned pick(std::span<const Option> options, const Steps& steps) override {
    if (redundant_) return 0;
    std::array<std::uint8_t, 2 * kThreads> allowed;
    unsigned count = 0;
    for (unsigned i = 0; i < options.size(); ++i)
      if (options[i].cost <= left_ && (asleep_ >> options[i].actor & 1) == 0)
        allowed[count++] = static_cast<std::uint8_t>(i);
    if (count == 0) {
      redundant_ = true;  // each option here leads to what an earlier run has seen
      return 0;
    }
    const unsigned picked = visit(count);
    const Option& option = options[allowed[picked]];
    if (budget_ != kUnbounded) {
      left_ -= option.cost;
      return allowed[picked];
    }
    for (unsigned i = 0; i < picked; ++i) asleep_ |= 1u << options[allowed[i]].actor;
    for (Actor actor = 0; actor < 2 * kThreads; ++actor)
      if ((asleep_ >> actor & 1) != 0 && !steps.independent(actor, option.actor))
        asleep_ &= ~(1u << actor);
    return allowed[picked];
  }

  unsigned choose(unsigned count) override {
    if (redundant_ || left_ == 0) return 0;
    const unsigned picked = visit(count);
    if (budget_ != kUnbounded && picked != 0) --left_;
    return picked;
  }

  bool only_ordinary() const override { return redundant_ || left_ == 0; }
  bool redundant() const override { return redundant_; }

 private:
  struct Node {
    std::uint8_t picked, count;
  };

  unsigned visit(unsigned count) {
    if (count == 1) return 0;
    if (depth_ == nodes_.size()) nodes_.push_back({0, static_cast<std::uint8_t>(count)});
    return nodes_[depth_++].picked;
  }

  const unsigned budget_;
  std::vector<Node> nodes_;
  bool started_ = false;
  // Of the run that goes on.
  std::size_t depth_ = 0;
  unsigned left_ = 0;
  std::uint32_t asleep_ = 0;  // actors whose next step was explored from here before
  bool redundant_ = false;
};

// Runs with random priorities, of which a few fall during the run (S. Burckhardt and others, A
// Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, 2010). Run n of a seed is the
// same every time.
class Random : public Strategy {
 public:
  Random(std::uint64_t seed, std::uint64_t runs) : seed_(seed), runs_(runs) {}

  bool next_run() override {
    if (run_ == runs_) return false;
    random_.seed(seed_ + run_++);
    length_ = std::max(length_ * 7 / 8, steps_);  // about what the runs so far took
    steps_ = 0;
    for (auto& priority : priorities_) priority = kChanges + random_() % 1'000'000;
    for (auto& change : changes_) change = 1 + random_() % std::max<std::uint64_t>(length_, 1);
    changes_used_ = random_() % (kChanges + 1);
    return true;
  }

  unsigned pick(std::span<const Option> options, const Steps&) override {
    ++steps_;
    const auto best = [&] {
      unsigned at = 0;
      for (unsigned i = 1; i < options.size(); ++i)
        if (priorities_[options[i].actor] > priorities_[options[at].actor]) at = i;
      return at;
    };
    for (unsigned i = 0; i < changes_used_; ++i)
      if (changes_[i] == steps_) priorities_[options[best()].actor] = i;
    return best();
  }

  unsigned choose(unsigned count) override { return random_() % 4 != 0 ? 0 : random_() % count; }

 private:
  static constexpr std::size_t kChanges = 4;

  const std::uint64_t seed_, runs_;
  std::uint64_t run_ = 0, length_ = 100, steps_ = 0;
  std::mt19937_64 random_;
  std::array<std::uint64_t, 2 * kThreads> priorities_{};
  std::array<std::uint64_t, kChanges> changes_{};
  std::size_t changes_used_ = 0;
};

// One run, as recorded; past the end of the record, the ordinary course.
class Replay : public Strategy {
 public:
  explicit Replay(std::vector<std::uint8_t> choices) : choices_(std::move(choices)) {}
  bool next_run() override {
    at_ = 0;
    return !std::exchange(ran_, true);
  }
  unsigned pick(std::span<const Option> options, const Steps&) override {
    return std::min(next(), static_cast<unsigned>(options.size()) - 1);
  }
  unsigned choose(unsigned count) override { return std::min(next(), count - 1); }

 private:
  unsigned next() { return at_ < choices_.size() ? choices_[at_++] : 0; }

  const std::vector<std::uint8_t> choices_;
  std::size_t at_ = 0;
  bool ran_ = false;
};

}  // namespace headrace::explore
