#include "headrace/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "headrace/error.h"

namespace headrace {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array seconds_units{Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                                   Unit{"s", 1.0},   Unit{"min", 60.0}, Unit{"h", 3600.0}};
constexpr std::array byte_units{
    Unit{"B", 1.0},         Unit{"kB", 1e3},         Unit{"KB", 1e3},
    Unit{"MB", 1e6},        Unit{"GB", 1e9},         Unit{"TB", 1e12},
    Unit{"KiB", 0x1p10},    Unit{"MiB", 0x1p20},     Unit{"GiB", 0x1p30},
    Unit{"TiB", 0x1p40}};

template <std::size_t N>
double parse(std::string_view text, const std::array<Unit, N>& units, const char* example,
             const std::string& where) {
  auto refuse = [&](const char* why) {
    fail(ErrorCode::bad_input, "{}: \"{}\" {}; write for example \"{}\"", where, text, why, example);
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) refuse("is not a number with a unit");
  if (!std::isfinite(number) || number < 0) refuse("is negative or not finite");
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  if (unit.empty()) refuse("has no unit");
  for (const Unit& known : units)
    if (known.name == unit) {
      if (!std::isfinite(number * known.factor)) refuse("is too large");
      return number * known.factor;
    }
  refuse("has an unknown unit");
  return 0;
}

std::string with_digits(double value, std::string_view unit) {
  return fmt::format("{:.6g} {}", value, unit);
}

}  // namespace

double parse_seconds(std::string_view text, const std::string& where) {
  return parse(text, seconds_units, "1.1 s", where);
}

std::uint64_t parse_bytes(std::string_view text, const std::string& where) {
  const double bytes = parse(text, byte_units, "48 KiB", where);
  if (bytes >= 0x1p63 || bytes != std::floor(bytes))
    fail(ErrorCode::bad_input, "{}: \"{}\" is not a whole number of bytes below 2^63", where, text);
  return static_cast<std::uint64_t>(bytes);
}

double parse_bytes_per_second(std::string_view text, const std::string& where) {
  if (!text.ends_with("/s"))
    fail(ErrorCode::bad_input, "{}: \"{}\" is no rate; write for example \"717 GB/s\"", where, text);
  return parse(text.substr(0, text.size() - 2), byte_units, "717 GB/s", where);
}

std::string format_seconds(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-6) return with_digits(seconds * 1e9, "ns");
  if (seconds < 1e-3) return with_digits(seconds * 1e6, "us");
  if (seconds < 1) return with_digits(seconds * 1e3, "ms");
  return with_digits(seconds, "s");
}

std::string format_bytes(std::uint64_t bytes) {
  // The largest unit that divides the number; the number stays exact.
  static constexpr std::array exact{std::pair{"TiB", std::uint64_t{1} << 40}, {"TB", 1'000'000'000'000},
                                    {"GiB", 1 << 30}, {"GB", 1'000'000'000}, {"MiB", 1 << 20},
                                    {"MB", 1'000'000}, {"KiB", 1 << 10}, {"kB", 1'000}};
  for (const auto& [unit, factor] : exact)
    if (bytes > 0 && bytes % factor == 0) return fmt::format("{} {}", bytes / factor, unit);
  return fmt::format("{} B", bytes);
}

std::string format_bytes_per_second(double rate) {
  if (rate >= 1e9) return with_digits(rate / 1e9, "GB/s");
  if (rate >= 1e6) return with_digits(rate / 1e6, "MB/s");
  if (rate >= 1e3) return with_digits(rate / 1e3, "kB/s");
  return with_digits(rate, "B/s");
}

}  // namespace headrace
