// The prompts on which a drafter's accepted length (tau) is measured. Layer: nn, files.
#pragma once

#include <array>
#include <string_view>

namespace headrace {

// 64 texts of 10 to 40 tokens each, given to the model raw, without a chat template, and continued
// greedily. Entries 0 to 31 are beginnings of Python code, mostly function heads; entries 32 to 63
// are openings of English prose (essays, news, stories, explanations, letters). The order is fixed,
// and no text ends in white space. All were written for this project, quote nothing, and are under
// the project's licence.
const std::array<std::string_view, 64>& evaluation_prompts();

}  // namespace headrace
