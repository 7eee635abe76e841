#include "nn/decode.h"

#include <algorithm>
#include <chrono>

#include "headrace/error.h"
#include "nn/drafter.h"
#include "nn/target.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

torch::Tensor row_of(std::span<const std::int32_t> tokens) {
  const auto size = static_cast<std::int64_t>(tokens.size());
  return torch::from_blob(const_cast<std::int32_t*>(tokens.data()), {1, size}, torch::kInt32)
      .to(torch::kInt64);
}

// The target's own choice at each of n positions, from logits [n, vocab].
class Choice {
 public:
  explicit Choice(const DecodeOptions& options) : temperature_(options.temperature) {
    generator_.set_current_seed(options.seed);
  }

  std::vector<std::int64_t> operator()(const torch::Tensor& logits) {
    const torch::Tensor ids =
        temperature_ > 0
            ? torch::multinomial(torch::softmax(logits / temperature_, -1), 1, false, generator_)
                  .squeeze(-1)
            : logits.argmax(-1);
    const torch::Tensor flat = ids.contiguous();
    return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
  }

 private:
  double temperature_;
  torch::Generator generator_ = at::detail::createCPUGenerator();
};

void check_fits(const Target& target, std::size_t prompt, std::int64_t more) {
  if (prompt == 0) fail(ErrorCode::bad_input, "the prompt is empty: give at least one token");
  const std::int64_t total = static_cast<std::int64_t>(prompt) + more;
  if (total > target.shape().context)
    fail(ErrorCode::bad_input,
         "prompt ({} tokens) and {} new tokens exceed the model's context of {}: shorten the "
         "prompt or lower --max-tokens",
         prompt, more, target.shape().context);
}

}  // namespace

DecodeResult decode(const Target& target, const Drafter* drafter,
                    std::span<const std::int32_t> prompt, const DecodeOptions& options) {
  torch::NoGradGuard no_grad;
  check_fits(target, prompt.size(), options.max_tokens);
  const std::int64_t block = drafter ? drafter->config().block : 1;
  const std::vector<std::int64_t> taps =
      drafter ? drafter->config().taps : std::vector<std::int64_t>{};
  const std::int64_t capacity =
      std::min(target.shape().context,
               static_cast<std::int64_t>(prompt.size()) + options.max_tokens + block);

  DecodeResult result;
  // False: generation is over.
  const auto emit = [&](std::int64_t id) {
    const auto token = static_cast<std::int32_t>(id);
    result.tokens.push_back(token);
    const bool wanted = !options.emit || options.emit(token);
    const bool end = options.is_end && options.is_end(token);
    return wanted && !end && static_cast<std::int64_t>(result.tokens.size()) < options.max_tokens;
  };

  Choice choose(options);
  KvCache cache = target.make_cache(1, capacity);
  DraftCache draft_cache;
  if (drafter) draft_cache = drafter->make_cache(capacity);

  TargetOutput out = target.forward(row_of(prompt), cache, taps);
  if (drafter) drafter->extend(draft_cache, out.features[0]);
  std::int64_t bonus = choose(target.logits(out.hidden[0].slice(0, -1)))[0];

  const auto start = Clock::now();
  bool more = emit(bonus);
  while (more) {
    const std::int64_t before = cache.lengths[0], width = std::min(block, capacity - before);
    torch::Tensor tokens = torch::full({1, width}, bonus, torch::kInt64);
    if (width > 1)
      tokens[0].slice(0, 1).copy_(drafter->draft(draft_cache, bonus).slice(0, 0, width - 1));
    out = target.forward(tokens, cache, taps);
    const std::vector<std::int64_t> posterior = choose(target.logits(out.hidden[0]));
    ++result.passes;

    const std::int64_t* drafted = tokens.data_ptr<std::int64_t>() + 1;
    std::int64_t accepted = 0;
    while (accepted < width - 1 && drafted[accepted] == posterior[accepted]) ++accepted;
    for (std::int64_t i = 0; i <= accepted && more; ++i) more = emit(posterior[i]);

    cache.crop(0, before + accepted + 1);
    if (drafter) drafter->extend(draft_cache, out.features[0].slice(0, 0, accepted + 1));
    bonus = posterior[accepted];
  }
  result.seconds = seconds_since(start);
  return result;
}

Verification verify_greedy(const Target& target, std::span<const std::int32_t> prompt,
                           std::span<const std::int32_t> tokens) {
  torch::NoGradGuard no_grad;
  check_fits(target, prompt.size(), static_cast<std::int64_t>(tokens.size()));
  Verification result;
  KvCache cache = target.make_cache(1, static_cast<std::int64_t>(prompt.size() + tokens.size()));
  torch::Tensor hidden = target.forward(row_of(prompt), cache, {}).hidden[0].slice(0, -1);
  const auto start = Clock::now();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const torch::Tensor logits = target.logits(hidden)[0];
    const auto plain = static_cast<std::int32_t>(logits.argmax().item<std::int64_t>());
    if (plain != tokens[i]) {
      const torch::Tensor log_probabilities = torch::log_softmax(logits.to(torch::kFloat64), -1);
      const double gap = (log_probabilities[plain] - log_probabilities[tokens[i]]).item<double>();
      result.differences.push_back({i, plain, tokens[i], gap});
    }
    if (i + 1 == tokens.size()) break;
    hidden = target.forward(row_of(tokens.subspan(i, 1)), cache, {}).hidden[0];
    ++result.passes;
  }
  result.seconds = seconds_since(start);
  return result;
}

Decoder::Decoder(const GgufFile& target)
    : target_(std::make_shared<const Target>(Target::load(target, Precision::fp32))) {}

void Decoder::use_drafter(const DrafterConfig& config, const SafeTensorsFile& weights) {
  drafter_ = std::make_shared<const Drafter>(config, parameters_of(weights), target_->embedding(),
                                             target_->head());
}

DecodeResult Decoder::decode(std::span<const std::int32_t> prompt,
                             const DecodeOptions& options) const {
  return headrace::decode(*target_, drafter_.get(), prompt, options);
}

Verification Decoder::verify_greedy(std::span<const std::int32_t> prompt,
                                    std::span<const std::int32_t> tokens) const {
  return headrace::verify_greedy(*target_, prompt, tokens);
}

std::vector<TokenScore> Decoder::score(std::span<const std::int32_t> tokens,
                                       std::size_t best) const {
  if (tokens.size() < 2) fail(ErrorCode::bad_input, "a text of at least two tokens is needed");
  torch::NoGradGuard no_grad;
  check_fits(*target_, tokens.size(), 0);
  KvCache cache = target_->make_cache(1, static_cast<std::int64_t>(tokens.size()));
  const torch::Tensor scores = torch::log_softmax(
      target_->logits(target_->forward(row_of(tokens), cache, {}).hidden[0]), -1);
  const auto [values, ids] =
      scores.topk(std::min(static_cast<std::int64_t>(best), scores.size(-1)), -1);
  const auto all = scores.accessor<float, 2>();
  const auto best_values = values.accessor<float, 2>();
  const auto best_ids = ids.accessor<std::int64_t, 2>();
  std::vector<TokenScore> result;
  for (std::int64_t i = 0; i + 1 < scores.size(0); ++i) {
    TokenScore score{.token = tokens[i + 1], .log_probability = all[i][tokens[i + 1]]};
    for (std::int64_t k = 0; k < ids.size(1); ++k)
      score.best.emplace_back(static_cast<std::int32_t>(best_ids[i][k]), best_values[i][k]);
    result.push_back(std::move(score));
  }
  return result;
}

}  // namespace headrace
