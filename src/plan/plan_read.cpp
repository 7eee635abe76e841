#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <map>
#include <set>

#include "headrace/error.h"
#include "headrace/plan.h"
#include "headrace/quantity.h"
#include "plan/files.h"
#include "plan/validate.h"

namespace headrace {
namespace {

// Reads YAML into a Plan and remembers the line of each key, so that every message, also one of
// validate(), begins "FILE:LINE: KEY".
class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Plan read(const YAML::Node& root) {
    note("plan file", root);
    for_keys(root, "", {"version", "plan", "resources", "stages", "channels", "schedule"});
    const YAML::Node version = root["version"];
    if (!version || scalar(version, "version") != "1")
      refuse("version", "is {}; this version of Headrace reads version: 1",
             version ? scalar(version, "version") : "missing");
    Plan plan;
    if (root["plan"]) plan.name = scalar(root["plan"], "plan");
    for_entries(root, "resources", [&](const std::string& name, const YAML::Node& node) {
      plan.resources.push_back(resource(name, node));
    });
    for_entries(root, "stages", [&](const std::string& name, const YAML::Node& node) {
      plan.stages.push_back(stage(name, node));
    });
    for_entries(root, "channels", [&](const std::string& name, const YAML::Node& node) {
      plan.channels.push_back(channel(name, node));
    });
    if (root["schedule"]) plan.schedule = schedule(root["schedule"]);
    return plan;
  }

  // The line of the key, or of the nearest key that encloses it.
  std::string locate(const std::string& key) const {
    for (std::string enclosing = key;;) {
      if (const auto found = lines_.find(enclosing); found != lines_.end())
        return fmt::format("{}:{}: {}", file_, found->second, key);
      const std::size_t dot = enclosing.rfind('.');
      if (dot == std::string::npos) return fmt::format("{}:1: {}", file_, key);
      enclosing.resize(dot);
    }
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(const std::string& key, fmt::format_string<Args...> format,
                           Args&&... args) const {
    throw Error(ErrorCode::bad_input, fmt::format(format, std::forward<Args>(args)...))
        .in(locate(key));
  }

  void note(const std::string& key, const YAML::Node& node) {
    if (node.Mark().line >= 0) lines_[key] = node.Mark().line + 1;
  }

  const std::string& scalar(const YAML::Node& node, const std::string& key) {
    note(key, node);
    if (!node.IsScalar()) refuse(key, "expected one value, found {}", kind(node));
    return node.Scalar();
  }

  static const char* kind(const YAML::Node& node) {
    return node.IsMap()        ? "a map"
           : node.IsSequence() ? "a list"
           : node.IsScalar()   ? "a value"
                               : "nothing";
  }

  // Refuses anything but a map with these keys, each at most once.
  void for_keys(const YAML::Node& map, const std::string& key,
                const std::vector<std::string>& known) {
    const std::string prefix = key.empty() ? "" : key + ".";
    if (!map.IsMap())
      refuse(key.empty() ? "plan file" : key, "expected a map, found {}", kind(map));
    std::set<std::string> seen;
    for (const auto& entry : map) {
      const std::string name = scalar(entry.first, prefix + "?");
      note(prefix + name, entry.first);
      if (std::find(known.begin(), known.end(), name) == known.end())
        refuse(prefix + name, "unknown key; the known ones are {}", fmt::join(known, ", "));
      if (!seen.insert(name).second) refuse(prefix + name, "is given twice");
    }
  }

  template <typename Use>
  void for_entries(const YAML::Node& root, const std::string& key, const Use& use) {
    const YAML::Node map = root[key];
    if (!map) return;
    if (!map.IsMap()) refuse(key, "expected a map of names, found {}", kind(map));
    for (const auto& entry : map) {
      const std::string name = scalar(entry.first, key + ".?");
      note(key + "." + name, entry.first);
      use(name, entry.second);
    }
  }

  std::uint64_t count(const YAML::Node& node, const std::string& key) {
    const std::string& text = scalar(node, key);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      refuse(key, "\"{}\" is not a count", text);
    return value;
  }

  double number(const std::string& text, const std::string& key) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      refuse(key, "\"{}\" is not a number", text);
    return value;
  }

  double seconds(const YAML::Node& node, const std::string& key) {
    const std::string& text = scalar(node, key);
    return parse_seconds(text, locate(key));
  }

  std::uint64_t bytes(const YAML::Node& node, const std::string& key) {
    const std::string& text = scalar(node, key);
    return parse_bytes(text, locate(key));
  }

  // One name, or a list of names.
  std::vector<std::string> names(const YAML::Node& node, const std::string& key) {
    if (!node) return {};
    if (!node.IsSequence()) return {scalar(node, key)};
    std::vector<std::string> result;
    for (const auto& entry : node) result.push_back(scalar(entry, key));
    return result;
  }

  Resource resource(const std::string& name, const YAML::Node& node) {
    const std::string key = "resources." + name;
    for_keys(node, key, {"kind", "slowdown", "link"});
    if (!node["kind"]) refuse(key, "kind is missing; one of device, host, lock, shared");
    const std::string kind = scalar(node["kind"], key + ".kind");
    if (kind == "link")
      refuse(key + ".kind",
             "link resources need the link model, which this version lacks; give the "
             "stages that use it their measured costs");
    static const std::map<std::string, ResourceKind> kinds{{"device", ResourceKind::device},
                                                           {"host", ResourceKind::host},
                                                           {"lock", ResourceKind::lock},
                                                           {"shared", ResourceKind::shared}};
    const auto found = kinds.find(kind);
    if (found == kinds.end())
      refuse(key + ".kind", "unknown kind \"{}\"; one of device, host, lock, shared", kind);
    Resource result{name, found->second, 1.0};
    if (node["link"]) refuse(key + ".link", "belongs to kind: link");
    const bool shared = found->second == ResourceKind::shared;
    if (shared != static_cast<bool>(node["slowdown"]))
      refuse(key, "{}",
             shared ? "slowdown is missing; a number of at least 1"
                    : "slowdown belongs to kind: shared");
    if (shared)
      result.slowdown = number(scalar(node["slowdown"], key + ".slowdown"), key + ".slowdown");
    return result;
  }

  Cost cost(const YAML::Node& node, const std::string& key) {
    if (!node.IsMap()) return Cost::of(seconds(node, key));
    for_keys(node, key, {"samples", "quantiles"});
    Cost result;
    if (node["samples"] && node["quantiles"]) refuse(key, "give samples or quantiles, not both");
    if (node["samples"])
      for (const auto& sample : node["samples"])
        result.samples.push_back(seconds(sample, key + ".samples"));
    if (node["quantiles"])
      for (const auto& entry : node["quantiles"])
        result.quantiles[number(scalar(entry.first, key + ".quantiles"), key + ".quantiles")] =
            seconds(entry.second, key + ".quantiles");
    if (!result.known()) refuse(key, "holds no value; write for example \"1.1 s\"");
    return result;
  }

  After after(const std::string& text, const std::string& key) const {
    const std::size_t at = text.find('@');
    if (at == std::string::npos) return {text, 0};
    After result{text.substr(0, at), 0};
    const char *first = text.data() + at + 3, *last = text.data() + text.size();
    const bool lagged = text.compare(at, 3, "@n-") == 0 && first < last;
    const auto [end, error] = lagged ? std::from_chars(first, last, result.lag)
                                     : std::from_chars_result{first, std::errc::invalid_argument};
    if (error != std::errc() || end != last)
      refuse(key, "\"{}\" is not of the form \"stage\" or \"stage@n-1\"", text);
    return result;
  }

  Stage stage(const std::string& name, const YAML::Node& node) {
    const std::string key = "stages." + name;
    for_keys(node, key,
             {"on", "replicas", "per_step", "cost", "inputs", "outputs", "after", "uses"});
    Stage result;
    result.name = name;
    result.on = names(node["on"], key + ".on");
    if (node["replicas"]) result.replicas = count(node["replicas"], key + ".replicas");
    if (node["per_step"]) result.per_step = count(node["per_step"], key + ".per_step");
    if (node["cost"]) result.cost = cost(node["cost"], key + ".cost");
    result.inputs = names(node["inputs"], key + ".inputs");
    result.outputs = names(node["outputs"], key + ".outputs");
    for (const std::string& text : names(node["after"], key + ".after"))
      result.after.push_back(after(text, key + ".after"));
    result.uses = names(node["uses"], key + ".uses");
    return result;
  }

  Channel channel(const std::string& name, const YAML::Node& node) {
    const std::string key = "channels." + name;
    for_keys(node, key, {"items", "bytes", "item_bytes", "order"});
    Channel result;
    result.name = name;
    if (!node["items"]) refuse(key, "items is missing: how many items the channel may hold");
    result.items = count(node["items"], key + ".items");
    if (node["bytes"]) result.bytes = bytes(node["bytes"], key + ".bytes");
    if (node["item_bytes"]) result.item_bytes = bytes(node["item_bytes"], key + ".item_bytes");
    const std::string order = node["order"] ? scalar(node["order"], key + ".order") : "sequence";
    if (order != "sequence" && order != "ready")
      refuse(key + ".order", "unknown order \"{}\"; sequence or ready", order);
    result.order = order == "ready" ? Order::ready : Order::sequence;
    return result;
  }

  ScheduleText schedule(const YAML::Node& node) {
    if (node.IsScalar()) {
      const std::string& name = scalar(node, "schedule");
      if (name != "lockstep" && name != "overlapped" && name != "async")
        refuse("schedule",
               "unknown schedule \"{}\"; lockstep, overlapped, async, {{phases: [[..]]}} "
               "or {{edges: [..]}}",
               name);
      return {name, {}, {}};
    }
    for_keys(node, "schedule", {"phases", "edges"});
    if (node.size() != 1) refuse("schedule", "give phases or edges, one of them");
    ScheduleText result;
    if (const YAML::Node phases = node["phases"]) {
      result.name = "phases";
      if (!phases.IsSequence()) refuse("schedule.phases", "expected a list of lists of stages");
      for (const auto& phase : phases) result.phases.push_back(names(phase, "schedule.phases"));
      return result;
    }
    result.name = "edges";
    if (!node["edges"].IsSequence()) refuse("schedule.edges", "expected a list of edges");
    for (const auto& edge : node["edges"]) {
      for_keys(edge, "schedule.edges", {"from", "to"});
      if (edge.size() != 2) refuse("schedule.edges", "an edge has `from` and `to`");
      result.edges.push_back(
          {scalar(edge["from"], "schedule.edges.from"), scalar(edge["to"], "schedule.edges.to")});
    }
    return result;
  }

  std::string file_;
  std::map<std::string, int> lines_;
};

}  // namespace

Plan parse_plan(const std::string& yaml, const std::string& name_for_messages) {
  Reader reader(name_for_messages);
  try {
    Plan plan = reader.read(YAML::Load(yaml));
    validate(plan, [&](const std::string& key) { return reader.locate(key); });
    return plan;
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::bad_input, "{}:{}: not YAML: {}", name_for_messages, error.mark.line + 1,
         error.msg);
  }
}

Plan read_plan(const std::string& path) {
  return parse_plan(read_file(path), path);
}

}  // namespace headrace
