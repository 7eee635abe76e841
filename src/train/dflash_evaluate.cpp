#include "train/dflash_evaluate.h"

#include <algorithm>

#include "headrace/bigram.h"
#include "headrace/error.h"
#include "headrace/prompts.h"
#include "nn/evaluate.h"
#include "train/interrupt.h"

namespace headrace {
namespace {

constexpr std::int64_t kNewTokens = 48, kHeldOutLength = 96;
constexpr std::size_t kHeldOutPrefixes = 64;
constexpr std::uint64_t kCorpusTokens = 5'000'000;  // of the table "over the whole corpus", at most

// Feeds a table with the rows of a fresh source, from its start until `rows` rows were served, or to the end of its
// first pass but at most kCorpusTokens.
BigramTable table_of(const DflashSession& session, std::optional<std::uint64_t> rows) {
  TextOptions options = session.text_options();
  if (!rows) options.epochs = 1;
  TextSource source(session.manifest, options, session.encode());
  BigramTable table;
  TokenBatch batch;
  std::uint64_t served = 0, tokens = 0;
  const auto more = [&] { return rows ? served < *rows : tokens < kCorpusTokens; };
  while (more() && source.next(batch)) {
    if (interrupted()) fail(ErrorCode::cancelled, "evaluation stopped");
    tokens += batch.token_count();
    for (std::uint64_t r = 0; r < batch.rows && more(); ++r, ++served)
      table.add(std::span(batch.tokens)
                    .subspan(r * batch.length, static_cast<std::size_t>(batch.row_lengths[r])));
  }
  return table;
}

}  // namespace

struct DflashEvaluator::State {
  const DflashSession& session;
  std::optional<Continuations> prompts, held_out;

  void prepare(torch::ScalarType features_type) {
    if (prompts) return;
    const Target target = Target::load(session.file, Precision::fp32);
    // A model of a short context gets shorter prompts and continuations.
    const std::int64_t context = target.shape().context, fresh = std::min(kNewTokens, context / 2);
    const auto longest = static_cast<std::size_t>(std::min(kHeldOutLength, context - fresh));
    std::vector<std::vector<std::int32_t>> texts;
    for (const std::string_view prompt : evaluation_prompts()) {
      texts.push_back(session.tokenizer.encode(prompt));
      texts.back().resize(std::min(texts.back().size(), longest));
    }
    prompts =
        continue_greedily(target, texts, fresh, session.drafter.taps, features_type, interrupted);
    const auto prefixes = held_out_prefixes(session.manifest, session.encode(), kHeldOutPrefixes,
                                            longest, session.options.seed);
    if (!prefixes.empty())
      held_out = continue_greedily(target, prefixes, fresh, session.drafter.taps, features_type,
                                   interrupted);
  }
};

DflashEvaluator::DflashEvaluator(const DflashSession& session)
    : state_(new State{session, {}, {}}) {}
DflashEvaluator::~DflashEvaluator() = default;

DrafterScore DflashEvaluator::score(const DflashTrainer& trainer) {
  const Drafter& drafter = trainer.drafter();
  state_->prepare(drafter.dtype());
  const Evaluation evaluation = evaluate(drafter, *state_->prompts);
  DrafterScore score{.step = trainer.steps(), .tokens = trainer.tokens()};
  score.tau = evaluation.tau.all;
  score.tau_without_loops = evaluation.tau.without_loops;
  score.tau_code = evaluation.first_half.all;
  score.tau_prose = evaluation.second_half.all;
  score.looping = evaluation.tau.looping;
  score.acceptance = evaluation.acceptance;
  if (state_->held_out) score.tau_heldout = evaluate(drafter, *state_->held_out).tau.all;
  return score;
}

BigramScore DflashEvaluator::bigrams(const DflashTrainer& trainer) {
  const Drafter& drafter = trainer.drafter();
  state_->prepare(drafter.dtype());
  const std::int64_t block = drafter.config().block;
  BigramScore score;
  const BigramTable trained = table_of(state_->session, trainer.position().rng_counter);
  const Tau tau = evaluate(trained, *state_->prompts, block);
  score.trained = tau.all;
  score.trained_without_loops = tau.without_loops;
  if (state_->held_out) score.trained_heldout = evaluate(trained, *state_->held_out, block).all;
  score.corpus = evaluate(table_of(state_->session, std::nullopt), *state_->prompts, block).all;
  return score;
}

}  // namespace headrace
