// A chain of stages, each in a thread of its own, joined by bounded channels: for loops that need no
// plan, devices or trace, down to items of a few nanoseconds. Layer: flow.
//
//   run_pipeline({},
//                [&]() -> std::optional<Block> { return reader.next(); },   // source
//                [](Block block) { return parse(block); },                  // any number of stages
//                [&](Rows rows) { writer.write(rows); });                   // sink
//
// Contract
//   - N items in, N served, in order. The source ends the stream with nullopt.
//   - The first error wins: run_pipeline throws it as Error with stage and item ("stage 2, item 17:
//     ..."; the source is stage 0, items count from 0). Items before it in the chain are served by
//     the stages behind it; the stages before it stop, at the latest after the call they are in.
//   - stop: every wait ends; what is on its way is dropped, and the result is Status::stopped.
//   - The sink runs in the caller's thread, which gets its cores back at the end. When run_pipeline returns or throws, all its threads
//     have ended.
//   - An item must be movable without throwing, and default constructible.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "headrace/channel.h"

namespace headrace {

struct PipelineOptions {
  std::uint64_t capacity = 64;  // items between two stages
  // Cores to pin the stages to, in groups of neighbours: with two cores and four stages the first
  // two share a core. Empty: not pinned. Error(resource) names a core that there is not.
  std::vector<int> cores;
  std::stop_token stop;
};

// source: optional<A>(); stages: B(A), C(B), ...; the last one returns nothing. Returns ok or
// stopped.
template <typename Source, typename... Stages>
Status run_pipeline(const PipelineOptions& options, Source source, Stages... stages);

}  // namespace headrace

#include "headrace/pipeline-inl.h"
