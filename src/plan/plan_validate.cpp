#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "headrace/error.h"
#include "headrace/quantity.h"
#include "plan/graph.h"
#include "plan/validate.h"

namespace headrace {
namespace {

class Validator {
 public:
  Validator(const Plan& plan, const Locate& locate) : plan_(plan), locate_(locate) {}

  void run() const {
    if (plan_.stages.empty()) refuse("stages", "there is none; a plan has at least one stage");
    check_names("resources", plan_.resources);
    check_names("stages", plan_.stages);
    check_names("channels", plan_.channels);
    for (const Resource& resource : plan_.resources)
      if (resource.kind == ResourceKind::shared && !(resource.slowdown >= 1))
        refuse("resources." + resource.name + ".slowdown", "{} is below 1", resource.slowdown);
    for (const Channel& channel : plan_.channels) check_channel(channel);
    for (const Stage& stage : plan_.stages) check_stage(stage);
    for (const Channel& channel : plan_.channels) check_ends(channel);
    const Graph graph(plan_);
    for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage)
      if (graph.shares_device_or_lock(plan_, stage)) check_reserved(plan_.stages[stage]);
    try {
      topological_order(plan_, graph);
    } catch (const Error& error) {
      refuse("stages", "{}; break it, for example with `after: [\"STAGE@n-1\"]`", error.what());
    }
    check_fed(graph);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(const std::string& key, fmt::format_string<Args...> format,
                           Args&&... args) const {
    throw Error(ErrorCode::bad_input, fmt::format(format, std::forward<Args>(args)...))
        .in(locate_(key));
  }

  template <typename Things>
  static auto find(const Things& things, const std::string& name) {
    return std::find_if(things.begin(), things.end(),
                        [&](const auto& thing) { return thing.name == name; });
  }

  template <typename Things>
  void check_names(const std::string& kind, const Things& things) const {
    std::set<std::string> seen;
    for (const auto& thing : things) {
      const std::string& name = thing.name;
      if (!is_name(name))
        refuse(kind,
               "\"{}\" is no name; use a letter, then letters, digits, \"_\", \".\" and \"-\"",
               name);
      if (!seen.insert(name).second) refuse(kind + "." + name, "is defined twice");
    }
  }

  void check_channel(const Channel& channel) const {
    const std::string key = "channels." + channel.name;
    check_count(key + ".items", channel.items);
    if (channel.bytes > 0 && channel.item_bytes > channel.bytes)
      refuse(key + ".bytes", "{} cannot hold one item of {}; raise it", format_bytes(channel.bytes),
             format_bytes(channel.item_bytes));
  }

  void check_count(const std::string& key, std::uint64_t count) const {
    if (count < 1 || count > max_count) refuse(key, "{} is not between 1 and {}", count, max_count);
  }

  void check_stage(const Stage& stage) const {
    const std::string key = "stages." + stage.name;
    check_count(key + ".per_step", stage.per_step);
    check_count(key + ".replicas", stage.replicas);
    if (stage.on.empty()) refuse(key + ".on", "names no resource; give the stage a device or host");
    if (stage.replicas > 1 && stage.on.size() != stage.replicas)
      refuse(key + ".on", "lists {} resources for {} replicas; give each replica one",
             stage.on.size(), stage.replicas);
    check_uses(key + ".on", stage.on, {ResourceKind::device, ResourceKind::host},
               "a device or a host", stage.replicas == 1);
    check_uses(key + ".uses", stage.uses, {ResourceKind::lock, ResourceKind::shared},
               "a lock or shared", true);
    const auto kind_of = [&](const std::string& name) { return plan_.resource(name).kind; };
    for (const std::string& name : stage.on)
      if (kind_of(name) != kind_of(stage.on.front()))
        refuse(key + ".on", "mixes devices and hosts ({}, {})", stage.on.front(), name);
    for (const auto& [name, channels] :
         {std::pair{".inputs", &stage.inputs}, std::pair{".outputs", &stage.outputs}})
      for (const std::string& channel : *channels) {
        if (find(plan_.channels, channel) == plan_.channels.end())
          refuse(key + name, "there is no channel named \"{}\"; define it under channels", channel);
        if (std::count(channels->begin(), channels->end(), channel) > 1)
          refuse(key + name, "names channel {} twice", channel);
      }
    for (const After& after : stage.after) {
      if (find(plan_.stages, after.stage) == plan_.stages.end())
        refuse(key + ".after", "there is no stage named \"{}\"", after.stage);
      if (after.lag > max_count)
        refuse(key + ".after", "a lag of {} steps is above {}", after.lag, max_count);
    }
    check_cost(key + ".cost", stage.cost);
  }

  void check_uses(const std::string& key, const std::vector<std::string>& names,
                  std::initializer_list<ResourceKind> kinds, const char* wanted,
                  bool distinct) const {
    for (const std::string& name : names) {
      const auto resource = find(plan_.resources, name);
      if (resource == plan_.resources.end())
        refuse(key, "there is no resource named \"{}\"; define it under resources", name);
      if (std::find(kinds.begin(), kinds.end(), resource->kind) == kinds.end())
        refuse(key, "{} is not {}", name, wanted);
      if (distinct && std::count(names.begin(), names.end(), name) > 1)
        refuse(key, "names {} twice", name);
    }
  }

  void check_cost(const std::string& key, const Cost& cost) const {
    const auto check = [&](double seconds) {
      if (!std::isfinite(seconds) || seconds < 0)
        refuse(key, "{} s is negative or not finite", seconds);
    };
    std::for_each(cost.samples.begin(), cost.samples.end(), check);
    double last = 0;
    for (const auto& [probability, seconds] : cost.quantiles) {
      check(seconds);
      if (!(probability >= 0 && probability <= 1))
        refuse(key, "the quantile {} is not between 0 and 1", probability);
      if (seconds < last) refuse(key, "the quantile {} is below the one before it", probability);
      last = seconds;
    }
  }

  void check_ends(const Channel& channel) const {
    const std::string key = "channels." + channel.name;
    const Stage* producer = only_user(channel, &Stage::outputs, "fill", key);
    const Stage* consumer = only_user(channel, &Stage::inputs, "empty", key);
    if (producer == nullptr && consumer == nullptr)
      refuse(key, "no stage fills it and none empties it; remove it");
    if (producer == nullptr)
      refuse(key, "no stage fills it, so {} could never start; give it a producer", consumer->name);
    if (consumer == nullptr)
      refuse(key, "no stage empties it, so what {} gives leads nowhere; give it a consumer",
             producer->name);
    if (producer->per_step != consumer->per_step)
      refuse(key, "{} fires {} times a step and {} {} times; make per_step equal", producer->name,
             producer->per_step, consumer->name, consumer->per_step);
  }

  // Such a stage starts only where its items will fit.
  void check_reserved(const Stage& stage) const {
    for (const std::string& name : stage.outputs) {
      const Channel& channel = plan_.channel(name);
      if (channel.bytes > 0 && channel.item_bytes == 0)
        refuse("channels." + name,
               "bytes without item_bytes, and {} shares its device or lock; give item_bytes, the "
               "size of its largest item",
               stage.name);
    }
  }

  // Stages that follow only one another would go round for ever: nothing ends them.
  void check_fed(const Graph& graph) const {
    std::vector<bool> fed(plan_.stages.size(), false);
    const auto feeds = [&](std::size_t stage) {
      const Graph::Node& node = graph.stages[stage];
      if (!node.inputs.empty())
        return std::all_of(node.inputs.begin(), node.inputs.end(),
                           [&](std::size_t channel) { return fed[graph.producer[channel]]; });
      return graph.is_source(stage) ||
             std::any_of(node.after.begin(), node.after.end(),
                         [&](const Graph::After& after) { return fed[after.stage]; });
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t stage = 0; stage < fed.size(); ++stage)
        if (!fed[stage] && feeds(stage)) changed = fed[stage] = true;
    }
    std::vector<std::string> unfed;
    for (std::size_t stage = 0; stage < fed.size(); ++stage)
      if (!fed[stage]) unfed.push_back(plan_.stages[stage].name);
    if (!unfed.empty())
      refuse("stages",
             "no source feeds {}; give it an input, or let it come after a stage that has one",
             fmt::join(unfed, ", "));
  }

  const Stage* only_user(const Channel& channel, std::vector<std::string> Stage::*list,
                         const char* verb, const std::string& key) const {
    const Stage* only = nullptr;
    for (const Stage& stage : plan_.stages) {
      const auto& names = stage.*list;
      if (std::find(names.begin(), names.end(), channel.name) == names.end()) continue;
      if (only)
        refuse(key, "{} and {} both {} it; only one stage may", only->name, stage.name, verb);
      only = &stage;
    }
    return only;
  }

  const Plan& plan_;
  const Locate& locate_;
};

}  // namespace

void validate(const Plan& plan, const Locate& locate) {
  Validator(plan, locate).run();
}

void validate(const Plan& plan, const std::string& name_for_messages) {
  validate(plan, [&](const std::string& key) { return name_for_messages + ": " + key; });
}

Plan validated(Plan plan) {
  validate(plan, "plan " + plan.name);
  return plan;
}

bool is_name(const std::string& text) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  };
  // YAML's words for nothing.
  if (text.empty() || text == "null" || text == "Null" || text == "NULL") return false;
  return (std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_') &&
         std::all_of(text.begin(), text.end(), allowed);
}

}  // namespace headrace
