// The checks of validate(), with the place of each key given by the caller. Layer: plan.
#pragma once

#include <functional>
#include <string>

#include "headrace/plan.h"

namespace headrace {

// "plan.yaml:7: stages.target0.cost" for "stages.target0.cost".
using Locate = std::function<std::string(const std::string& key)>;

void validate(const Plan& plan, const Locate& locate);

}  // namespace headrace
