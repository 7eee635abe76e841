// Tau of a drafter in training, beside bigram tables. The header knows no libtorch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "train/dflash_trainer.h"

namespace headrace {

struct DrafterScore {
  std::uint64_t step = 0, tokens = 0;     // trained on
  double tau = 0, tau_without_loops = 0;  // over the 64 evaluation prompts, 48 new tokens each
  double tau_code = 0, tau_prose = 0;
  std::size_t looping = 0;  // prompts whose continuation ends in a loop
  std::optional<double>
      tau_heldout;  // over prefixes of held-out files; none where nothing is held out
  std::vector<double> acceptance;  // teacher-forced, a slot, on the evaluation prompts
};

struct BigramScore {
  double trained = 0, trained_without_loops = 0;  // a table over the tokens trained on
  double corpus = 0;  // over the training files, their first 5 million tokens
  std::optional<double> trained_heldout;
};

// Loads the target in fp32 once, continues the prompts greedily, and drops it again.
class DflashEvaluator {
 public:
  explicit DflashEvaluator(const DflashSession& session);
  ~DflashEvaluator();

  // On the calling thread's compute threads (nn/threads.h). Error(cancelled) after Ctrl-C.
  DrafterScore score(const DflashTrainer& trainer);
  BigramScore bigrams(const DflashTrainer& trainer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headrace
