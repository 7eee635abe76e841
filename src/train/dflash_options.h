// What `headrace train dflash` is asked to do. No libtorch here: the command line includes it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

namespace headrace {

// Re-planning makes no channel deeper than so many times the depth of `features`. A bound on bytes
// stays.
constexpr std::uint64_t kReplanDeepens = 8;

struct DflashOptions {
  std::string target;  // a path or the name of a model
  std::vector<std::string> data;
  std::string schedule = "async";  // lockstep | overlapped | async
  std::string plan_file;           // instead of schedule: a plan of the same stages
  std::string out;                 // "": the folder that is resumed, else "out"
  std::string resume;              // OUT of an earlier run, or one of its steps
  std::string html;                // "": OUT/report.html
  std::string device = "cpu";

  std::uint64_t targets = 1, drafters = 1;  // replicas of each role, one device each
  std::uint64_t steps = 0;                  // 0: by `seconds`, or one pass over the data
  double seconds = 0;  // train for about so long; the number of steps is fixed after the first few
  std::uint64_t batch = 2, length = 128, anchors = 32, block = 8, layers = 4, taps = 5;
  double learning_rate = 1.6e-3, weight_decay = 0.01, gamma = 4, clip = 1;
  double dpace = 0;  // of D-PACE weights instead of gamma's; 0: gamma's
  std::uint64_t head_tokens =
      4096;  // most frequent tokens in the softmax of training; 0: the whole vocabulary
  std::uint64_t head_drawn = 2048;  // tokens drawn a step to stand for the others
  std::string start = "target";     // target | random
  std::string decay = "linear";     // linear | cosine | wsd
  std::uint64_t warmup = 30;        // steps
  std::uint64_t depth = 2;          // batches of features between a target and a drafter
  std::uint64_t replan = 0;         // re-plan after so many steps; 0: never
  std::uint64_t workers = 1;        // threads that read and tokenise; 0: the load stage does
  std::uint64_t channel_bytes = 0;  // 0: none
  std::uint64_t seed = 1;
  std::uint64_t grad_delay = 0;        // 0 | 1
  std::uint64_t checkpoint_every = 0;  // steps; 0: at the end only
  std::uint64_t evaluate_every = 0;    // steps; 0: at the end only
  std::uint64_t memory = 0;            // bytes; 0: no limit
  bool deterministic = false;
  bool compare = false;
  bool dry_run = false;
  bool verify_data = false;
  bool follow = false;
  bool evaluate = true;
  bool json = false;

  std::set<std::string> given;  // switches that were on the command line, e.g. "--batch"
};

// What a checkpoint remembers of the options: all that decides the weights, and where target and
// data were.
nlohmann::json remembered(const DflashOptions& options);
// Fills in what was not given on the command line. Error(usage) names a given switch that
// contradicts the checkpoint: only --steps, --batch and what does not touch the weights may change.
void recall(DflashOptions& options, const nlohmann::json& remembered, const std::string& folder);

// Error(usage) names the switch, its value and what is allowed.
void validate(const DflashOptions& options);

// Runs the command; returns its exit status. Results go to stdout, messages and progress to stderr.
int train_dflash(const DflashOptions& options);

}  // namespace headrace
