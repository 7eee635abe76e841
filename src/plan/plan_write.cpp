#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "headrace/error.h"
#include "headrace/plan.h"
#include "headrace/quantity.h"
#include "plan/validate.h"

namespace headrace {
namespace {

const char* to_string(ResourceKind kind) {
  switch (kind) {
    case ResourceKind::device:
      return "device";
    case ResourceKind::host:
      return "host";
    case ResourceKind::lock:
      return "lock";
    case ResourceKind::shared:
      return "shared";
  }
  return "unknown";
}

// As a double-quoted YAML scalar.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += std::string{'\\', c};
    else if (byte < 0x20 || byte == 0x7f)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result + '"';
}

std::string name_text(const std::string& name) {
  return is_name(name) ? name : quoted(name);
}

std::string list(const std::vector<std::string>& entries) {
  return fmt::format("[{}]", fmt::join(entries, ", "));
}

// Exact: the shortest decimal number that reads back to the same double.
std::string seconds(double value) {
  return fmt::format("{} s", value);
}

std::string cost_text(const Cost& cost) {
  if (cost.quantiles.empty() && cost.samples.size() == 1) return seconds(cost.samples.front());
  std::vector<std::string> entries;
  for (const auto& [probability, value] : cost.quantiles)
    entries.push_back(fmt::format("{}: {}", probability, seconds(value)));
  if (!entries.empty()) return fmt::format("{{quantiles: {{{}}}}}", fmt::join(entries, ", "));
  for (double value : cost.samples) entries.push_back(seconds(value));
  return fmt::format("{{samples: {}}}", list(entries));
}

std::string stage_text(const Stage& stage) {
  std::string text = "on: " + (stage.on.size() == 1 ? stage.on.front() : list(stage.on));
  if (stage.replicas != 1) text += fmt::format(", replicas: {}", stage.replicas);
  if (stage.per_step != 1) text += fmt::format(", per_step: {}", stage.per_step);
  if (stage.cost.known()) text += ", cost: " + cost_text(stage.cost);
  if (!stage.inputs.empty()) text += ", inputs: " + list(stage.inputs);
  if (!stage.outputs.empty()) text += ", outputs: " + list(stage.outputs);
  std::vector<std::string> after;
  for (const After& entry : stage.after)
    after.push_back(entry.lag == 0 ? entry.stage
                                   : fmt::format("\"{}@n-{}\"", entry.stage, entry.lag));
  if (!after.empty()) text += ", after: " + list(after);
  if (!stage.uses.empty()) text += ", uses: " + list(stage.uses);
  return text;
}

std::string channel_text(const Channel& channel) {
  std::string text = fmt::format("items: {}", channel.items);
  if (channel.bytes > 0) text += ", bytes: " + format_bytes(channel.bytes);
  if (channel.item_bytes > 0) text += ", item_bytes: " + format_bytes(channel.item_bytes);
  if (channel.order == Order::ready) text += ", order: ready";
  return text;
}

std::string schedule_text(const ScheduleText& schedule) {
  std::vector<std::string> entries;
  if (schedule.name == "phases") {
    for (std::vector<std::string> phase : schedule.phases) {
      std::transform(phase.begin(), phase.end(), phase.begin(), name_text);
      entries.push_back(list(phase));
    }
  } else if (schedule.name == "edges") {
    for (const EdgeText& edge : schedule.edges)
      entries.push_back(fmt::format("{{from: {}, to: {}}}", quoted(edge.from), quoted(edge.to)));
  } else {
    return schedule.name;
  }
  return fmt::format("{{{}: {}}}", schedule.name, list(entries));
}

}  // namespace

std::string write_plan(const Plan& plan) {
  std::string text = "version: 1\n";
  if (!plan.name.empty()) text += "plan: " + name_text(plan.name) + "\n";
  text += "resources:\n";
  for (const Resource& resource : plan.resources) {
    text += fmt::format("  {}: {{kind: {}", resource.name, to_string(resource.kind));
    if (resource.kind == ResourceKind::shared)
      text += fmt::format(", slowdown: {}", resource.slowdown);
    text += "}\n";
  }
  text += "stages:\n";
  for (const Stage& stage : plan.stages)
    text += fmt::format("  {}: {{{}}}\n", stage.name, stage_text(stage));
  if (!plan.channels.empty()) text += "channels:\n";
  for (const Channel& channel : plan.channels)
    text += fmt::format("  {}: {{{}}}\n", channel.name, channel_text(channel));
  return text + "schedule: " + schedule_text(plan.schedule) + "\n";
}

std::string plan_hash(const Plan& plan) {
  Plan untimed = plan;
  for (Stage& stage : untimed.stages) stage.cost = {};
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const unsigned char byte : write_plan(untimed)) hash = (hash ^ byte) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

}  // namespace headrace
