// headrace generate, headrace model.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "headrace/error.h"
#include "headrace/prompts.h"
#include "headrace/sha256.h"
#include "headrace/thread.h"
#include "headrace/tokenizer.h"
#include "nn/decode.h"
#include "nn/threads.h"
#include "train/drafter_files.h"
#include "train/generate_options.h"
#include "train/progress_line.h"

namespace headrace {
namespace {

constexpr std::int64_t kEvaluationTokens = 48;

void open_drafter(Decoder& decoder, const std::string& path, const GgufFile& target,
                  const std::string& target_path) {
  const CheckpointFiles checkpoint = open_checkpoint(
      path, [](const std::string& warning) { fmt::print(stderr, "headrace: {}\n", warning); });
  DrafterConfig config = drafter_config(checkpoint);
  config.target = llama_shape(target);
  check_drafter_files(checkpoint, config, sha256_file(target_path));
  decoder.use_drafter(config, checkpoint.model);
}

// Prints the tokens that form whole UTF-8 characters; the rest waits for its next byte.
class Stream {
 public:
  explicit Stream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void token(std::int32_t id) {
    if (tokenizer_.is_control(id)) return;
    pending_ += tokenizer_.bytes_of(id);
    const std::size_t whole = complete_prefix();
    std::fwrite(pending_.data(), 1, whole, stdout);
    std::fflush(stdout);
    pending_.erase(0, whole);
  }
  void finish() {
    std::fwrite(pending_.data(), 1, pending_.size(), stdout);
    std::fputc('\n', stdout);
    pending_.clear();
  }

 private:
  std::size_t complete_prefix() const {
    std::size_t start = pending_.size();
    while (start > 0 && pending_.size() - start < 3 &&
           (static_cast<unsigned char>(pending_[start - 1]) & 0xC0) == 0x80)
      --start;
    if (start == 0) return pending_.size();
    const auto lead = static_cast<unsigned char>(pending_[start - 1]);
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return start - 1 + length > pending_.size() ? start - 1 : pending_.size();
  }

  const Tokenizer& tokenizer_;
  std::string pending_;
};

// One prompt after another; what the command reports at the end.
struct Session {
  const GenerateOptions& options;
  const Tokenizer& tokenizer;
  const Decoder& decoder;

  std::uint64_t tokens = 0, passes = 0, prompts = 0, near_ties = 0, wrong = 0;
  double seconds = 0, plain_seconds = 0;

  std::string run(const std::vector<std::int32_t>& prompt, std::int64_t max_tokens,
                  bool stop_at_end, Stream* stream) {
    DecodeOptions decoding{
        .max_tokens = max_tokens, .temperature = options.temperature, .seed = options.seed};
    if (stop_at_end) decoding.is_end = [this](std::int32_t id) { return tokenizer.is_end(id); };
    if (stream)
      decoding.emit = [stream](std::int32_t id) {
        stream->token(id);
        return true;
      };
    const DecodeResult result = decoder.decode(prompt, decoding);
    if (stream) stream->finish();
    ++prompts;
    tokens += result.tokens.size();
    passes += static_cast<std::uint64_t>(result.passes);
    seconds += result.seconds;
    if (options.verify) verify(prompt, result.tokens);
    return tokenizer.decode(result.tokens);
  }

  void verify(const std::vector<std::int32_t>& prompt, const std::vector<std::int32_t>& emitted) {
    const Verification verification = decoder.verify_greedy(prompt, emitted);
    plain_seconds += verification.seconds;
    for (const Difference& difference : verification.differences) {
      ++(difference.near_tie() ? near_ties : wrong);
      fmt::print(stderr,
                 "headrace: prompt {}, token {}: plain decoding gives {}, speculative {}: {} (gap "
                 "of the log-probabilities {:.2e})\n",
                 prompts, difference.index, difference.plain, difference.emitted,
                 difference.near_tie() ? "a near-tie" : "NOT a near-tie", difference.gap);
    }
  }

  // The first token of each prompt comes from its prefill.
  double tau() const {
    return passes > 0 ? static_cast<double>(tokens - prompts) / static_cast<double>(passes) : 0;
  }
};

std::string read_standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

void check(const GenerateOptions& options) {
  if (!options.evaluation && options.prompt.empty())
    fail(ErrorCode::usage, "give --prompt TEXT, or --evaluation");
  if (options.max_tokens == 0) fail(ErrorCode::usage, "--max-tokens 0: at least 1 is needed");
  if (!(options.temperature >= 0))
    fail(ErrorCode::usage, "--temperature {}: must not be negative", options.temperature);
  if (options.verify && options.temperature > 0)
    fail(ErrorCode::usage, "--verify compares greedy decoding: leave out --temperature");
}

}  // namespace

int generate(const GenerateOptions& options) {
  check(options);
  set_compute_threads(options.threads > 0 ? static_cast<int>(options.threads)
                                          : static_cast<int>(allowed_cores().size()));
  const std::string path = find_model(options.target);
  const GgufFile file = GgufFile::open(path);
  const Tokenizer tokenizer = Tokenizer::from(file);
  Decoder decoder(file);
  if (!options.drafter.empty()) open_drafter(decoder, options.drafter, file, path);

  Session session{options, tokenizer, decoder};
  std::string text;
  if (options.evaluation) {
    ProgressLine progress("prompts");
    for (const std::string_view prompt : evaluation_prompts()) {
      session.run(tokenizer.encode(prompt), kEvaluationTokens, false, nullptr);
      progress.update(session.prompts, evaluation_prompts().size(),
                      fmt::format("tau {:.3f}", session.tau()));
    }
  } else {
    const std::string prompt = options.prompt == "-" ? read_standard_input() : options.prompt;
    const bool chat = !options.raw && tokenizer.has_chat_template();
    const auto ids =
        chat ? tokenizer.encode(tokenizer.chat_prompt(prompt), true) : tokenizer.encode(prompt);
    Stream stream(tokenizer);
    text = session.run(ids, static_cast<std::int64_t>(options.max_tokens), true,
                       options.json ? nullptr : &stream);
  }

  const double rate = session.seconds > 0
                          ? static_cast<double>(session.tokens - session.prompts) / session.seconds
                          : 0;
  if (options.json) {
    nlohmann::json json{{"tokens", session.tokens},  {"passes", session.passes},
                        {"tau", session.tau()},      {"seconds", session.seconds},
                        {"tokens_per_second", rate}, {"prompts", session.prompts}};
    if (!options.evaluation) json["text"] = text;
    if (options.verify)
      json["verify"] = {{"near_ties", session.near_ties},
                        {"differences", session.wrong},
                        {"plain_seconds", session.plain_seconds}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print(stderr, "{} tokens in {} target passes, tau {:.3f}, {:.1f} tokens/s\n",
               session.tokens, session.passes, session.tau(), rate);
    if (options.verify)
      fmt::print(stderr,
                 "verified against plain greedy decoding ({:.1f} s instead of {:.1f} s): {} "
                 "near-ties, {} other differences\n",
                 session.plain_seconds, session.seconds, session.near_ties, session.wrong);
  }
  // Over the evaluation prompts more than one near-tie is no coincidence.
  return session.wrong > 0 || (options.evaluation && session.near_ties > 1) ? 1 : 0;
}

}  // namespace headrace
