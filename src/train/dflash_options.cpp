#include "train/dflash_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "headrace/error.h"

namespace headrace {
namespace {

// The options that decide the weights: switch, member. Visited by remembered() and recall().
template <typename Options, typename Visit>
void visit_fixed(Options& o, const Visit& visit) {
  visit("--length", o.length);
  visit("--anchors", o.anchors);
  visit("--block", o.block);
  visit("--layers", o.layers);
  visit("--taps", o.taps);
  visit("--lr", o.learning_rate);
  visit("--weight-decay", o.weight_decay);
  visit("--gamma", o.gamma);
  visit("--dpace", o.dpace);
  visit("--head-tokens", o.head_tokens);
  visit("--head-drawn", o.head_drawn);
  visit("--clip", o.clip);
  visit("--start", o.start);
  visit("--decay", o.decay);
  visit("--warmup", o.warmup);
  visit("--seed", o.seed);
  visit("--grad-delay", o.grad_delay);
  visit("--drafters", o.drafters);
}

// These may be changed by a resumed run.
template <typename Options, typename Visit>
void visit_free(Options& o, const Visit& visit) {
  visit("--target", o.target);
  visit("--data", o.data);
  visit("--steps", o.steps);
  visit("--seconds", o.seconds);
  visit("--batch", o.batch);
}

void check_range(const char* name, std::uint64_t value, std::uint64_t low, std::uint64_t high) {
  if (value < low || value > high)
    fail(ErrorCode::usage, "{} {}: must be {} to {}", name, value, low, high);
}

void check_positive(const char* name, double value) {
  if (!(value > 0) || !(value < 1e9))
    fail(ErrorCode::usage, "{} {}: must be a positive number", name, value);
}

void check_word(const char* name, const std::string& value,
                std::initializer_list<std::string> allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
    fail(ErrorCode::usage, "{} {}: must be one of {}", name, value, fmt::join(allowed, ", "));
}

}  // namespace

nlohmann::json remembered(const DflashOptions& options) {
  nlohmann::json json;
  const auto put = [&](const char* name, const auto& value) { json[name] = value; };
  visit_fixed(options, put);
  visit_free(options, put);
  return json;
}

void recall(DflashOptions& options, const nlohmann::json& remembered, const std::string& folder) {
  const auto read = [&](const char* name, auto& value, bool fixed) {
    const auto found = remembered.find(name);
    if (found == remembered.end())
      fail(ErrorCode::bad_input, "{}/state.json: options: {} is missing", folder, name);
    using Value = std::decay_t<decltype(value)>;
    Value stored;
    try {
      stored = found->get<Value>();
    } catch (const nlohmann::json::exception& e) {
      fail(ErrorCode::bad_input, "{}/state.json: options: {}: {}", folder, name, e.what());
    }
    if (!options.given.count(name)) {
      value = stored;
    } else if (fixed && value != stored) {
      fail(ErrorCode::usage, "{} contradicts {}, which was trained with {}: leave the switch out",
           name, folder, found->dump());
    }
  };
  visit_fixed(options, [&](const char* name, auto& value) { read(name, value, true); });
  visit_free(options, [&](const char* name, auto& value) { read(name, value, false); });
  // The two exclude each other: the one that is given now replaces the one that was given then.
  if (options.given.count("--steps")) options.seconds = 0;
  if (options.given.count("--seconds")) options.steps = 0;
}

void validate(const DflashOptions& o) {
  if (o.target.empty())
    fail(ErrorCode::usage, "--target is required: a GGUF file or the name of a model");
  if (o.data.empty())
    fail(ErrorCode::usage, "--data is required: text or source files, or folders of them");
  if (o.device == "cuda")
    fail(ErrorCode::usage,
         "--device cuda: drafter training runs on CPU devices in this version; use --device cpu");
  check_word("--device", o.device, {"cpu"});
  check_word("--schedule", o.schedule, {"lockstep", "overlapped", "async"});
  check_word("--start", o.start, {"target", "random"});
  check_word("--decay", o.decay, {"linear", "cosine", "wsd"});
  if (!o.plan_file.empty() && o.given.count("--schedule"))
    fail(ErrorCode::usage, "--plan holds the schedule: leave out --schedule");
  check_range("--targets", o.targets, 1, 64);
  check_range("--drafters", o.drafters, 1, 64);
  check_range("--depth", o.depth, 1, 1024);
  check_range("--workers", o.workers, 0, 64);
  if (o.replan == 1) fail(ErrorCode::usage, "--replan 1: give at least 2 steps to measure, or 0");
  check_range("--batch", o.batch, 1, 4096);
  check_range("--length", o.length, 3, 1u << 20);
  check_range("--anchors", o.anchors, 1, o.length);
  check_range("--block", o.block, 2, 64);
  check_range("--layers", o.layers, 1, 64);
  check_range("--taps", o.taps, 1, 64);
  check_range("--grad-delay", o.grad_delay, 0, 1);
  check_positive("--lr", o.learning_rate);
  check_positive("--gamma", o.gamma);
  check_positive("--clip", o.clip);
  if (!(o.dpace >= 0 && o.dpace <= 1))
    fail(ErrorCode::usage, "--dpace {}: must be 0 to 1", o.dpace);
  if (!(o.weight_decay >= 0 && o.weight_decay < 1))
    fail(ErrorCode::usage, "--weight-decay {}: must be 0 to 1", o.weight_decay);
  if (!(o.seconds >= 0)) fail(ErrorCode::usage, "--seconds {}: must not be negative", o.seconds);
  if (o.steps > 0 && o.seconds > 0)
    fail(ErrorCode::usage, "--steps and --seconds exclude each other");
  if (o.deterministic && o.seconds > 0)
    fail(ErrorCode::usage,
         "--deterministic needs --steps: the number of steps after --seconds depends on the "
         "machine");
  if (o.compare && o.steps < 3)
    fail(ErrorCode::usage, "--compare needs --steps of at least 3, e.g. --steps 20");
  if (o.compare && !o.resume.empty())
    fail(ErrorCode::usage, "--compare starts from the seed: leave out --resume");
  if (o.compare && !o.plan_file.empty())
    fail(ErrorCode::usage, "--compare runs every schedule: leave out --plan");
  if (o.compare && o.replan > 0)
    fail(ErrorCode::usage, "--compare runs every schedule with the same depth: leave out --replan");
}

}  // namespace headrace
