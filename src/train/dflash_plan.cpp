#include "train/dflash_plan.h"

#include <algorithm>

#include "headrace/error.h"
#include "headrace/thread.h"

namespace headrace {
namespace {

std::vector<Channel> channels(const DflashOptions& options, std::uint64_t feature_bytes) {
  // Batches of tokens are small; eight of them cover the time in which the source reads its next
  // window.
  return {{.name = "batches", .items = 8 * options.drafters},
          {.name = "features",
           .items = options.depth * options.drafters,
           .bytes = options.channel_bytes,
           .item_bytes = feature_bytes}};
}

// The four stages on the given devices.
std::vector<Stage> stages(std::vector<std::string> target_devices,
                          std::vector<std::string> drafter_devices, std::uint64_t drafters) {
  const std::uint64_t targets = target_devices.size();
  std::vector<std::string> sync_devices = drafter_devices;
  sync_devices.erase(std::unique(sync_devices.begin(), sync_devices.end()), sync_devices.end());
  return {{.name = "load", .on = {"host"}, .per_step = drafters, .outputs = {"batches"}},
          {.name = "target",
           .on = std::move(target_devices),
           .replicas = targets,
           .per_step = drafters,
           .inputs = {"batches"},
           .outputs = {"features"}},
          {.name = "drafter",
           .on = std::move(drafter_devices),
           .replicas = drafters,
           .per_step = drafters,
           .inputs = {"features"},
           .after = {{"sync", 1}}},
          {.name = "sync", .on = std::move(sync_devices), .after = {{"drafter", 0}}}};
}

}  // namespace

std::size_t Placement::threads(const std::string& resource) const {
  const auto found = cores.find(resource);
  return found == cores.end() ? 1 : std::max<std::size_t>(1, found->second.size());
}

PlacedPlan dflash_plan(const DflashOptions& options, std::uint64_t feature_bytes) {
  const std::vector<int> cores = allowed_cores();
  PlacedPlan placed;
  placed.plan.name = "dflash";
  placed.plan.resources.push_back({"host", ResourceKind::host});
  std::vector<std::string> target_devices, drafter_devices;
  for (std::uint64_t k = 0; k < options.targets + options.drafters; ++k) {
    const std::string device = fmt::format("cpu{}", k);
    placed.plan.resources.push_back({device, ResourceKind::device});
    placed.placement.cores[device] = {cores[k % cores.size()]};
    (k < options.targets ? target_devices : drafter_devices).push_back(device);
  }
  placed.plan.stages = stages(target_devices, drafter_devices, options.drafters);
  placed.plan.channels = channels(options, feature_bytes);
  placed.plan.schedule.name = options.schedule;
  return placed;
}

PlacedPlan dflash_plan_all_cores(const DflashOptions& options, std::uint64_t feature_bytes) {
  PlacedPlan placed;
  placed.plan.name = "dflash-allcores";
  placed.plan.resources = {{"host", ResourceKind::host}, {"cpus", ResourceKind::device}};
  placed.plan.stages = stages(std::vector<std::string>(options.targets, "cpus"),
                              std::vector<std::string>(options.drafters, "cpus"), options.drafters);
  placed.plan.channels = channels(options, feature_bytes);
  placed.plan.schedule.name = "lockstep";
  placed.placement.cores["cpus"] = allowed_cores();
  return placed;
}

PlacedPlan dflash_plan_from(const std::string& path) {
  PlacedPlan placed{read_plan(path), {}};
  const Plan expected = dflash_plan({}, 0).plan;
  for (const Stage& stage : placed.plan.stages)
    if (std::ranges::find(expected.stages, stage.name, &Stage::name) == expected.stages.end())
      fail(
          ErrorCode::bad_input,
          "{}: stages.{}: not a stage of drafter training; they are load, target, drafter and sync",
          path, stage.name);
  for (const Stage& wanted : expected.stages) {
    const auto found = std::ranges::find(placed.plan.stages, wanted.name, &Stage::name);
    if (found == placed.plan.stages.end())
      fail(ErrorCode::bad_input,
           "{}: stages: \"{}\" is missing; drafter training has load, target, drafter and sync",
           path, wanted.name);
    if (found->inputs != wanted.inputs || found->outputs != wanted.outputs ||
        found->after != wanted.after)
      fail(ErrorCode::bad_input,
           "{}: stages.{}: inputs, outputs and after must be those that `train dflash --dry-run` "
           "prints",
           path, wanted.name);
    const std::uint64_t drafters = placed.plan.stage("drafter").replicas;
    const std::uint64_t per_step = wanted.name == "sync" ? 1 : drafters;
    if (found->per_step != per_step)
      fail(ErrorCode::bad_input,
           "{}: stages.{}.per_step: {}, must be {}: a step takes one batch a drafter", path,
           wanted.name, found->per_step, per_step);
  }
  const std::vector<int> cores = allowed_cores();
  std::size_t k = 0;
  for (const Resource& resource : placed.plan.resources)
    if (resource.kind == ResourceKind::device)
      placed.placement.cores[resource.name] = {cores[k++ % cores.size()]};
  return placed;
}

PlacedPlan wanted_plan(const DflashOptions& options, std::uint64_t feature_bytes) {
  return options.plan_file.empty() ? dflash_plan(options, feature_bytes)
                                   : dflash_plan_from(options.plan_file);
}

}  // namespace headrace
