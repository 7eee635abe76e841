// Three stages in a thread each, without a plan: numbers, their squares, the sum. The second run fails
// in its middle: the error says where, and the squares before it were summed.
#include <fmt/format.h>

#include "headrace/pipeline.h"

int main() {
  using namespace headrace;
  const auto sum_of_squares = [](long count, long bad) {
    long sum = 0, next = 0;
    const auto numbers = [&]() -> std::optional<long> {
      return next < count ? std::optional(next++) : std::nullopt;
    };
    const auto square = [&](long number) {
      if (number == bad) fail(ErrorCode::bad_input, "{} cannot be squared", number);
      return number * number;
    };
    try {
      run_pipeline({.capacity = 16}, numbers, square, [&](long squared) { sum += squared; });
    } catch (const Error& error) {
      fmt::print("{}\n", error.what());
    }
    return sum;
  };
  const long whole = sum_of_squares(1000, -1), part = sum_of_squares(1000, 10);
  fmt::print("{} {}\n", whole, part);
  return whole == 332833500 && part == 285 ? 0 : 1;
}
