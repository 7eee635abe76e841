// Quantities with units, as files that people write carry them: "1.1 s", "48 KiB", "717 GB/s".
// A bare number is refused. GB = 1e9, GiB = 2^30. Layer: plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace {

// Each parser accepts one number, optional blanks and one unit, and throws Error(bad_input) with
// `where` in front of the message otherwise ("plan.yaml:7: stages.target0.cost: ...").
// Negative, infinite and NaN values are refused.
double parse_seconds(std::string_view text, const std::string& where);  // ns us ms s min h
std::uint64_t parse_bytes(std::string_view text,
                          const std::string& where);  // B kB KB MB GB TB KiB MiB GiB TiB
double parse_bytes_per_second(std::string_view text, const std::string& where);  // <bytes>/s

// Shortest text with a fitting unit that the parser above reads back: to `digits` significant
// digits for seconds, 6 for rates, exactly for bytes.
std::string format_seconds(double seconds, int digits = 6);
std::string format_bytes(std::uint64_t bytes);
std::string format_bytes_per_second(double rate);

}  // namespace headrace
