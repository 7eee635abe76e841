// What a double buffer must do, as checks that run against any class with the interface of
// Prefetch: the real one, and models with a bug in them, which shows that the checks see the bug.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "headrace/prefetch.h"

namespace headrace::testing {

struct Number {
  std::uint64_t value = 0;
  Position position;
};

// Every field of the position follows from the count, so that one put together from two is seen.
inline Position position_after(std::uint64_t batches) {
  return {.manifest = fmt::format("m{}", batches / 3),
          .epoch = batches / 5,
          .batch = batches,
          .shard = batches * 7,
          .row = batches % 5,
          .rng_counter = batches * 11};
}

// The numbers from `first` up to `count`. The half that runs in several workers takes between
// 0 and 6 us, and fails at the number `broken`.
inline Source<Number> numbers(std::uint64_t first, std::uint64_t count,
                              std::uint64_t broken = UINT64_MAX) {
  const auto next = std::make_shared<std::uint64_t>(first);
  return {[=](Number& number) {
            if (*next == count) return false;
            number.value = (*next)++;
            return true;
          },
          [=](Number& number) {
            const auto until =
                std::chrono::steady_clock::now() + std::chrono::microseconds(number.value * 5 % 7);
            while (std::chrono::steady_clock::now() < until) {
            }
            if (number.value == broken) fail(ErrorCode::io, "shard {} is gone", broken);
            number.position = position_after(number.value + 1);
          }};
}

// The checks return what is wrong, or "".
using Verdict = std::string;

// N batches in, N served, each once and in order, and the end stays the end.
template <typename Buffer>
Verdict serves_each_once(std::uint64_t count, const PrefetchOptions& options) {
  Buffer buffer(numbers(0, count), options);
  std::uint64_t served = 0;
  for (bool more = buffer.prime(); more; more = buffer.next()) {
    if (served == count || buffer.current().value != served)
      return fmt::format("{} was served in place of {}", buffer.current().value, served);
    if (buffer.offsets_to_commit() != (served == 0 ? Position{} : position_after(served)))
      return fmt::format("batch {} is committed while {} is current",
                         buffer.offsets_to_commit().batch, served);
    ++served;
  }
  if (served != count) return fmt::format("{} of {} were served", served, count);
  if (!buffer.exhausted()) return "not exhausted at the end";
  if (buffer.next() || buffer.next()) return "there is something behind the end";
  if (count > 0 && buffer.offsets_to_commit() != position_after(count))
    return "the last batch is not committed";
  return "";
}

// Uses some batches, goes away while another is current, and resumes from what could be committed,
// as often as `used` has entries: the batches follow without a gap or a repetition.
template <typename Buffer>
Verdict resumes_without_loss(const std::vector<std::uint64_t>& used, PrefetchOptions options) {
  constexpr std::uint64_t kCount = 16;
  std::uint64_t expected = 0;
  for (std::size_t run = 0; run <= used.size(); ++run) {
    const bool last = run == used.size();
    Buffer buffer(numbers(options.start.batch, kCount), options);
    bool more = buffer.prime();
    if (buffer.offsets_to_commit() != options.start) return "the start is not the first position";
    for (std::uint64_t i = 0; more && (last || i < used[run]); ++i, more = buffer.next())
      if (buffer.current().value != expected++) return fmt::format("a wrong {}", expected - 1);
    options.start = buffer.offsets_to_commit();
    if (!last && options.start.batch != expected)
      return fmt::format("{} were used, and {} would be committed", expected, options.start.batch);
  }
  if (expected != kCount) return fmt::format("the last resume ended at {}", expected);
  return "";
}

// An error is seen in place of its batch: after the `good` ones, whose positions are committed.
template <typename Buffer>
Verdict error_in_its_place(std::uint64_t good, const PrefetchOptions& options) {
  Buffer buffer(numbers(0, UINT64_MAX, good), options);
  std::uint64_t served = 0;
  try {
    for (bool more = buffer.prime(); more; more = buffer.next())
      if (served++ == good) return "a batch was served in place of the error";
    return "the error was swallowed";
  } catch (const Error&) {
  }
  if (served != good) return fmt::format("{} of {} good batches were served", served, good);
  if (buffer.offsets_to_commit() != (good == 0 ? Position{} : position_after(good)))
    return fmt::format("batch {} is committed, {} were used", buffer.offsets_to_commit().batch,
                       good);
  if (buffer.exhausted()) return "an error is no end";
  try {
    buffer.next();
    return "the error is forgotten";
  } catch (const Error&) {
  }
  return "";
}

}  // namespace headrace::testing
