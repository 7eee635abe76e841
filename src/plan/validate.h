// The checks of validate(), with the place of each key given by the caller. Layer: plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "headrace/plan.h"

namespace headrace {

// "plan.yaml:7: stages.target0.cost" for "stages.target0.cost".
using Locate = std::function<std::string(const std::string& key)>;

void validate(const Plan& plan, const Locate& locate);

// The same plan, checked: for the first initialiser of what is built from a plan.
Plan validated(Plan plan);

// Whether a stage, channel or resource may have this name. YAML can hold it without quotes.
bool is_name(const std::string& text);

constexpr std::uint64_t max_count = 1'000'000;  // of per_step, items and lags: beyond what a plan
                                                // can mean to say

}  // namespace headrace
