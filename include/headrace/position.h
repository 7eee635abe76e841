// Where a batch came from. A position travels with its batch, becomes committable when the step
// that used the batch has completed (never at fetch), and is durable with the checkpoint that holds
// that step's weights. Layer: plan.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace headrace {

// The state of a source just after a batch: resuming from it gives the next batch. A source gives
// its fields the meaning that it needs within what is said here, and its header says which.
//
// A source that mixes rows (a shuffle window, a pool of open documents for best-fit packing) has
// state that no counter holds. It makes that state again from where the window or pool began, and
// passes over what was served of it: `shard` is that beginning, `row` the number passed over.
struct Position {
  std::string manifest;            // id of the manifest; "" before the first batch
  std::uint64_t epoch = 0;         // passes over the manifest that were completed
  std::uint64_t batch = 0;         // batches served since the start of the run, over all epochs
  std::uint64_t shard = 0;         // file, piece or window in the epoch's order
  std::uint64_t row = 0;           // rows, or whole documents, served of the shard
  std::uint64_t rng_counter = 0;   // samples drawn so far: randomness is keyed by (seed, counter)
  std::uint64_t carry_tokens = 0;  // packing: tokens already served of the document at `row`, which
                                   // the next row goes on with; 0 where rows share no document

  bool operator==(const Position&) const = default;
};

void to_json(nlohmann::json& json, const Position& position);
void from_json(const nlohmann::json& json,
               Position& position);  // Error(bad_input) names a missing or ill-typed key

}  // namespace headrace
