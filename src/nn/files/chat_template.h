// Chat prompts without a Jinja interpreter. Layer: nn (no libtorch).
#pragma once

#include <string>
#include <string_view>

namespace headrace {

// What the template gives for one user message and a generation prompt. ChatML is recognised by its
// markers, and its default system message, where it has one, is taken from the template.
// Error(bad_input) with `path` names any other template.
std::string chat_ml_prompt(const std::string& chat_template, std::string_view user,
                           const std::string& path);

}  // namespace headrace
