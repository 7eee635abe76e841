#include "nn/files/chat_template.h"

#include "headrace/error.h"

namespace headrace {
namespace {

constexpr std::string_view kStart = "<|im_start|>", kEnd = "<|im_end|>";

// What a template that is not ChatML is, by a marker that only it has.
const char* name_of(const std::string& chat_template) {
  static constexpr struct {
    const char *marker, *name;
  } families[] = {{"<|start_header_id|>", "Llama 3"}, {"<start_of_turn>", "Gemma"},
                  {"[INST]", "Llama 2 or Mistral"},   {"<|assistant|>", "Zephyr or Phi"},
                  {"<|start|>", "Harmony"},           {"GPT4 Correct", "OpenChat"}};
  for (const auto& family : families)
    if (chat_template.find(family.marker) != std::string::npos) return family.name;
  return "an unknown format";
}

// Jinja may write a line break in a literal as \n.
std::string with_line_breaks(std::string text) {
  for (std::size_t at = 0; (at = text.find("\\n", at)) != std::string::npos; ++at) {
    text.erase(at, 1);
    text[at] = '\n';
  }
  return text;
}

// The system turn that the template writes out where the conversation begins without one: a whole
// turn within one string literal. Empty where there is none.
std::string default_system_turn(const std::string& text) {
  const std::string head = std::string(kStart) + "system\n";
  for (std::size_t at = 0; (at = text.find(head, at)) != std::string::npos; ++at) {
    const std::size_t end = text.find(kEnd, at);
    if (end == std::string::npos) break;
    const std::string turn = text.substr(at, end + kEnd.size() - at);
    if (turn.find_first_of("'\"{}") == std::string::npos) return turn + "\n";
  }
  return "";
}

}  // namespace

std::string chat_ml_prompt(const std::string& chat_template, std::string_view user,
                           const std::string& path) {
  if (chat_template.empty())
    fail(ErrorCode::bad_input, "{}: the model has no chat template; prompt it with plain text",
         path);
  if (chat_template.find(kStart) == std::string::npos ||
      chat_template.find(kEnd) == std::string::npos)
    fail(ErrorCode::bad_input, "{}: the chat template is {}; only ChatML is supported", path,
         name_of(chat_template));
  return fmt::format("{}{}user\n{}{}\n{}assistant\n",
                     default_system_turn(with_line_breaks(chat_template)), kStart, user, kEnd,
                     kStart);
}

}  // namespace headrace
