// The plan of the published four-GPU run, with and without the lock that its targets share.
#pragma once

#include <string>

inline std::string example_plan(bool with_lock) {
  const std::string uses = with_lock ? ", uses: [autotuner]" : "";
  return R"(version: 1
plan: dflash-4gpu
resources:
  gpu0: {kind: device}
  gpu1: {kind: device}
  gpu2: {kind: device}
  gpu3: {kind: device}
  autotuner: {kind: lock}
stages:
  target0:  {on: gpu0, cost: 1.1 s, outputs: [features0])" +
         uses + R"(}
  target1:  {on: gpu1, cost: 1.1 s, outputs: [features1])" +
         uses + R"(}
  drafter0: {on: gpu2, cost: 0.6 s, inputs: [features0]}
  drafter1: {on: gpu3, cost: 0.6 s, inputs: [features1]}
  sync:     {on: [gpu2, gpu3], cost: 0.2 s, after: [drafter0, drafter1]}
channels:
  features0: {items: 4, bytes: 2 GiB, item_bytes: 450 MB}
  features1: {items: 4, bytes: 2 GiB, item_bytes: 450 MB}
schedule: lockstep
)";
}
