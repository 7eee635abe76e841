// What `headrace generate` is asked to do. No libtorch here: the command line includes it.
#pragma once

#include <cstdint>
#include <string>

namespace headrace {

struct GenerateOptions {
  std::string target;   // a path or the name of a model
  std::string drafter;  // OUT of a training run or one of its steps; "": plain decoding
  std::string prompt;
  std::uint64_t max_tokens = 128;
  double temperature = 0;
  std::uint64_t seed = 1;
  std::uint64_t threads = 0;  // 0: all cores
  bool raw = false;           // continue the prompt as it is, without the chat template
  bool evaluation = false;    // the 64 evaluation prompts instead of one
  bool verify = false;
  bool json = false;
};

// Runs the command; returns its exit status (1 where --verify finds a difference that is no
// near-tie).
int generate(const GenerateOptions& options);

struct ModelOptions {
  std::string model;
  std::string tokenize, logits;
  bool has_tokenize = false, has_logits = false;
  bool json = false;
};

int show_model(const ModelOptions& options);

}  // namespace headrace
