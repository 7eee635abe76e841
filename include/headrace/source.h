// Where batches come from, in two halves, so that several workers share one source and their
// batches are exactly those of one worker. Layer: flow.
//
//   claim   gives the next batch its place: which rows, which random numbers, where the source
//           stands after it. Cheap; one call at a time, in the order of the batches.
//   make    the expensive rest, from what claim() wrote into the batch and nothing that changes:
//           reads, decodes, tokenises. Several calls at once, each with another batch.
//
//   Source<Batch> files(
//       [&](Batch& batch) { return cursor.advance(batch.rows, batch.position); },
//       [&](Batch& batch) { batch.tokens = tokenise(read(batch.rows)); });
//
// A source that cannot be split is its claim() alone: any `bool(Batch&)`. Several workers then take
// turns in it.
//
// Contract
//   - Both get a batch that is newly constructed, then claimed. claim() returns whether there is a
//     batch; after a false, or an exception of either half, nothing more is claimed.
//   - `position` says where the source stands just after the batch. Either half may set it.
//   - Either half may take a stop token besides. It is triggered when nobody wants the batch any
//     more: what waits or runs long should then return, whatever it returns.
#pragma once

#include <concepts>
#include <functional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "headrace/position.h"

namespace headrace {

// What a Source fills and a Prefetch serves.
template <typename T>
concept Positioned = std::default_initializable<T> && requires(T& batch) {
  { (batch.position) } -> std::same_as<Position&>;
};

template <Positioned Batch>
struct Source {
  std::function<bool(Batch&, const std::stop_token&)> claim;
  std::function<void(Batch&, const std::stop_token&)> make;  // empty: claim() does it all

  template <typename Claim>
  Source(Claim whole) : claim(stoppable<bool>(std::move(whole))) {}
  template <typename Claim, typename Make>
  Source(Claim first, Make rest)
      : claim(stoppable<bool>(std::move(first))), make(stoppable<void>(std::move(rest))) {}

 private:
  template <typename Result, typename Function>
  static std::function<Result(Batch&, const std::stop_token&)> stoppable(Function function) {
    if constexpr (std::is_invocable_v<Function&, Batch&, const std::stop_token&>)
      return function;
    else
      return [function = std::move(function)](Batch& batch, const std::stop_token&) mutable {
        return static_cast<Result>(function(batch));
      };
  }
};

}  // namespace headrace
