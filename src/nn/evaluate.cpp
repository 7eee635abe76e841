#include "nn/evaluate.h"

#include <algorithm>

#include "headrace/error.h"

namespace headrace {
namespace {

constexpr std::size_t kLoopTokens = 16, kLoopPeriod = 8;
// A ragged batch of so many sequences reads the weights once a token; more of them cost memory.
constexpr std::int64_t kContinuedAtOnce = 16, kProposedAtOnce = 8;

bool ends_in_loop(std::span<const std::int32_t> tokens) {
  if (tokens.size() < kLoopTokens) return false;
  const auto tail = tokens.last(kLoopTokens);
  for (std::size_t period = 1; period <= kLoopPeriod; ++period) {
    bool repeats = true;
    for (std::size_t i = period; i < tail.size() && repeats; ++i)
      repeats = tail[i] == tail[i - period];
    if (repeats) return true;
  }
  return false;
}

// Sums the sequences [first, last).
Tau fold(const Continuations& continuations, const std::vector<Acceptance>& each, std::size_t first,
         std::size_t last) {
  Tau tau;
  Acceptance all, without_loops;
  for (std::size_t i = first; i < last; ++i) {
    all += each[i];
    if (!continuations.loops[i]) without_loops += each[i];
    tau.looping += continuations.loops[i];
  }
  tau.all = all.tau();
  tau.without_loops = without_loops.tau();
  tau.prompts = last - first;
  return tau;
}

}  // namespace

std::span<const std::int32_t> Continuations::continuation(std::size_t i) const {
  return std::span(sequences.at(i)).subspan(prompt_lengths.at(i));
}

// Continues the sequences [first, first + batch) of `result`.
static void continue_some(const Target& target, Continuations& result, std::int64_t first,
                          std::int64_t batch, std::int64_t count,
                          const std::vector<std::int64_t>& taps,
                          const std::function<bool()>& stopping) {
  std::vector<std::int64_t> counts;
  for (std::int64_t b = 0; b < batch; ++b)
    counts.push_back(static_cast<std::int64_t>(result.prompt_lengths[first + b]));
  const std::int64_t longest = std::ranges::max(counts);
  // The prefill takes the whole prompts, each later pass one token a sequence.
  torch::Tensor input = torch::zeros({batch, longest}, torch::kInt64);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 0; i < counts[b]; ++i) input[b][i] = result.sequences[first + b][i];
  KvCache cache = target.make_cache(batch, longest + count);
  for (std::int64_t n = 0; n <= count; ++n) {
    if (stopping && stopping()) fail(ErrorCode::cancelled, "evaluation stopped");
    const TargetOutput out = target.forward(input, cache, taps, counts);
    std::vector<torch::Tensor> last;
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t to = cache.lengths[b], from = to - counts[b];
      result.tokens[first + b].slice(0, from, to).copy_(input[b].slice(0, 0, counts[b]));
      result.features[first + b].slice(0, from, to).copy_(out.features[b].slice(0, 0, counts[b]));
      last.push_back(out.hidden[b][counts[b] - 1]);
    }
    if (n == count) return;
    const torch::Tensor next = target.logits(torch::stack(last)).argmax(-1);
    for (std::int64_t b = 0; b < batch; ++b)
      result.sequences[first + b].push_back(
          static_cast<std::int32_t>(next[b].item<std::int64_t>()));
    input = next.unsqueeze(1);
    counts.assign(batch, 1);
  }
}

Continuations continue_greedily(const Target& target,
                                const std::vector<std::vector<std::int32_t>>& prompts,
                                std::int64_t count, const std::vector<std::int64_t>& taps,
                                torch::ScalarType features_type,
                                const std::function<bool()>& stopping) {
  torch::NoGradGuard no_grad;
  const auto total = static_cast<std::int64_t>(prompts.size());
  Continuations result;
  result.sequences = prompts;
  std::int64_t longest = 0;
  for (const auto& prompt : prompts) {
    if (prompt.empty()) fail(ErrorCode::bad_input, "an evaluation prompt is empty");
    result.prompt_lengths.push_back(prompt.size());
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  }
  result.tokens = torch::zeros({total, longest + count}, torch::kInt64);
  result.features = torch::zeros(
      {total, longest + count, static_cast<std::int64_t>(taps.size()) * target.shape().hidden},
      features_type);
  for (std::int64_t first = 0; first < total; first += kContinuedAtOnce)
    continue_some(target, result, first, std::min(kContinuedAtOnce, total - first), count, taps,
                  stopping);
  for (std::size_t i = 0; i < prompts.size(); ++i)
    result.loops.push_back(ends_in_loop(result.continuation(i)));
  return result;
}

Evaluation evaluate(const Drafter& drafter, const Continuations& continuations) {
  torch::NoGradGuard no_grad;
  const auto batch = static_cast<std::int64_t>(continuations.sequences.size());
  const std::int64_t slots = drafter.config().block - 1;
  std::vector<Acceptance> each;
  std::vector<double> hits(slots, 0), counted(slots, 0);

  for (std::int64_t first = 0; first < batch; first += kProposedAtOnce) {
    const std::int64_t last = std::min(batch, first + kProposedAtOnce);
    std::int64_t most = 0;
    for (std::int64_t b = first; b < last; ++b)
      most = std::max<std::int64_t>(most, continuations.continuation(b).size());
    // One block at each token of the continuation, as if a pass had ended there.
    torch::Tensor anchors = torch::full({last - first, most}, -1, torch::kInt64),
                  lengths = torch::zeros({last - first}, torch::kInt64);
    for (std::int64_t b = first; b < last; ++b) {
      const auto count = static_cast<std::int64_t>(continuations.continuation(b).size());
      const auto prompt = static_cast<std::int64_t>(continuations.prompt_lengths[b]);
      anchors[b - first].slice(0, 0, count).copy_(torch::arange(prompt, prompt + count));
      lengths[b - first] = prompt + count;
    }
    const torch::Tensor proposals =
        drafter
            .propose({continuations.features.slice(0, first, last),
                      continuations.tokens.slice(0, first, last), lengths, anchors})
            .to(torch::kInt32)
            .contiguous();
    const auto proposed = proposals.accessor<std::int32_t, 3>();
    for (std::int64_t b = first; b < last; ++b) {
      const auto truth = continuations.continuation(b);
      // The block that starts at the token before a position proposes for it.
      each.push_back(acceptance_cycles(truth, [&](std::size_t position) {
        const std::int32_t* from =
            proposed[b - first][static_cast<std::int64_t>(position) - 1].data();
        return std::vector<std::int32_t>(from, from + slots);
      }));
      for (std::size_t at = 0; at < truth.size(); ++at)
        for (std::int64_t k = 0; k < slots && at + 1 + k < truth.size(); ++k) {
          counted[k] += 1;
          hits[k] += proposed[b - first][static_cast<std::int64_t>(at)][k] == truth[at + 1 + k];
        }
    }
  }
  Evaluation result;
  result.tau = fold(continuations, each, 0, each.size());
  result.first_half = fold(continuations, each, 0, each.size() / 2);
  result.second_half = fold(continuations, each, each.size() / 2, each.size());
  for (std::int64_t k = 0; k < slots; ++k)
    result.acceptance.push_back(counted[k] > 0 ? hits[k] / counted[k] : 0);
  return result;
}

Tau evaluate(const BigramTable& table, const Continuations& continuations, std::int64_t block) {
  std::vector<Acceptance> each;
  for (std::size_t i = 0; i < continuations.sequences.size(); ++i) {
    const auto truth = continuations.continuation(i);
    each.push_back(acceptance_cycles(truth, [&](std::size_t position) {
      return table.chain(truth[position - 1], static_cast<std::size_t>(block - 1));
    }));
  }
  return fold(continuations, each, 0, each.size());
}

}  // namespace headrace
