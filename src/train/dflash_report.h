// What a run prints and draws: the JSON object, the table on the terminal, report.html.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "headrace/report.h"
#include "train/dflash_compare.h"
#include "train/dflash_evaluate.h"

namespace headrace {

struct DflashOutcome {
  DflashRun run;
  std::vector<StepLog> log;
  std::vector<DrafterScore> scores;  // in the order of steps; the last is the final one
  std::optional<BigramScore> bigrams;
  TextCounts data;               // what was read
  std::uint64_t grad_delay = 0;  // steps by which each gradient was late
};

nlohmann::ordered_json to_json(const DflashOutcome& outcome);
std::string to_text(const DflashOutcome& outcome);  // within 100 columns
Report to_report(const DflashSession& session, const DflashOutcome& outcome);

// On stdout: the object in one line, or the text.
void print_result(const nlohmann::ordered_json& json, const std::string& text, bool as_json);

nlohmann::ordered_json to_json(const Comparison& comparison);
Report to_report(const DflashSession& session, const Comparison& comparison);

}  // namespace headrace
