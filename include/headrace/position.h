// Where a batch came from. A position travels with its batch, becomes committable when the step
// that used the batch has completed (never at fetch), and is durable with the checkpoint that holds
// that step's weights. Layer: plan.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace headrace {

// The state of a source just after a batch: resuming from it gives the next batch.
struct Position {
  std::string manifest;            // id of the manifest; "" before the first batch
  std::uint64_t epoch = 0;         // passes over the manifest that were completed
  std::uint64_t batch = 0;         // batches served since the start of the run, over all epochs
  std::uint64_t shard = 0;         // where in the epoch's order the window of the next row begins
  std::uint64_t row = 0;           // rows served of that window
  std::uint64_t rng_counter = 0;   // samples drawn so far: randomness is keyed by (seed, counter)
  std::uint64_t carry_tokens = 0;  // reserved: 0, since no row continues the document of another

  bool operator==(const Position&) const = default;
};

void to_json(nlohmann::json& json, const Position& position);
void from_json(const nlohmann::json& json,
               Position& position);  // Error(bad_input) names a missing or ill-typed key

}  // namespace headrace
