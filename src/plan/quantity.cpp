#include "headrace/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "headrace/error.h"

namespace headrace {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array seconds_units{Unit{"ns", 1e-9}, Unit{"us", 1e-6},  Unit{"ms", 1e-3},
                                   Unit{"s", 1.0},   Unit{"min", 60.0}, Unit{"h", 3600.0}};
// The largest first: format_bytes takes the first that divides the number.
constexpr std::array byte_units{Unit{"TiB", 0x1p40}, Unit{"TB", 1e12},    Unit{"GiB", 0x1p30},
                                Unit{"GB", 1e9},     Unit{"MiB", 0x1p20}, Unit{"MB", 1e6},
                                Unit{"KiB", 0x1p10}, Unit{"kB", 1e3},     Unit{"KB", 1e3},
                                Unit{"B", 1}};

[[noreturn]] void refuse(std::string_view text, const std::string& where, const char* why,
                         const char* example) {
  fail(ErrorCode::bad_input, "{}: \"{}\" {}; write for example \"{}\"", where, text, why, example);
}

// A number of type T and the factor of its unit.
template <typename T, std::size_t N>
std::optional<std::pair<T, double>> split(std::string_view text, const std::array<Unit, N>& units) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  for (const Unit& known : units)
    if (known.name == unit) return std::pair{number, known.factor};
  return std::nullopt;
}

template <std::size_t N>
double parse(std::string_view text, const std::array<Unit, N>& units, const char* example,
             const std::string& where) {
  const auto parts = split<double>(text, units);
  if (!parts) refuse(text, where, "is not a number with a unit", example);
  const double value = parts->first * parts->second;
  if (!std::isfinite(value) || std::signbit(value))
    refuse(text, where, "is negative or not finite", example);
  return value;
}

std::string with_digits(double value, std::string_view unit, int digits = 6) {
  return fmt::format("{:.{}g} {}", value, digits, unit);
}

}  // namespace

double parse_seconds(std::string_view text, const std::string& where) {
  return parse(text, seconds_units, "1.1 s", where);
}

std::uint64_t parse_bytes(std::string_view text, const std::string& where) {
  // Whole numbers exactly: a double holds no more than 53 bits.
  const auto whole = split<std::uint64_t>(text, byte_units);
  std::uint64_t bytes = 0;
  if (whole &&
      !__builtin_mul_overflow(whole->first, static_cast<std::uint64_t>(whole->second), &bytes))
    return bytes;
  const double value = parse(text, byte_units, "48 KiB", where);
  if (value >= 0x1p53 || value != std::floor(value))
    refuse(text, where, "is no whole number of bytes, or too large", "48 KiB");
  return static_cast<std::uint64_t>(value);
}

double parse_bytes_per_second(std::string_view text, const std::string& where) {
  if (!text.ends_with("/s")) refuse(text, where, "is no rate", "717 GB/s");
  return parse(text.substr(0, text.size() - 2), byte_units, "717 GB/s", where);
}

std::string format_seconds(double seconds, int digits) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-6) return with_digits(seconds * 1e9, "ns", digits);
  if (seconds < 1e-3) return with_digits(seconds * 1e6, "us", digits);
  if (seconds < 1) return with_digits(seconds * 1e3, "ms", digits);
  return with_digits(seconds, "s", digits);
}

std::string format_bytes(std::uint64_t bytes) {
  for (const Unit& unit : byte_units) {
    const auto factor = static_cast<std::uint64_t>(unit.factor);
    if (bytes > 0 && bytes % factor == 0) return fmt::format("{} {}", bytes / factor, unit.name);
  }
  return "0 B";
}

std::string format_bytes_per_second(double rate) {
  if (rate >= 1e9) return with_digits(rate / 1e9, "GB/s");
  if (rate >= 1e6) return with_digits(rate / 1e6, "MB/s");
  if (rate >= 1e3) return with_digits(rate / 1e3, "kB/s");
  return with_digits(rate, "B/s");
}

}  // namespace headrace
