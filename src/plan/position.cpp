#include "headrace/position.h"

#include <nlohmann/json.hpp>

#include "headrace/error.h"

namespace headrace {
namespace {

const nlohmann::json& member(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) fail(ErrorCode::bad_input, "position: key \"{}\" is missing", key);
  return *found;
}

void read(const nlohmann::json& json, const char* key, std::uint64_t& value) {
  const nlohmann::json& found = member(json, key);
  if (!found.is_number_unsigned())
    fail(ErrorCode::bad_input, "position: {} is {}, not a count", key, found.dump());
  value = found.get<std::uint64_t>();
}

}  // namespace

void to_json(nlohmann::json& json, const Position& position) {
  json = {{"manifest", position.manifest},
          {"epoch", position.epoch},
          {"batch", position.batch},
          {"row", position.row},
          {"shard", position.shard},
          {"rng_counter", position.rng_counter},
          {"carry_tokens", position.carry_tokens}};
}

void from_json(const nlohmann::json& json, Position& position) {
  if (!json.is_object()) fail(ErrorCode::bad_input, "position: not a JSON object");
  const nlohmann::json& manifest = member(json, "manifest");
  if (!manifest.is_string())
    fail(ErrorCode::bad_input, "position: manifest is {}, not a string", manifest.dump());
  position.manifest = manifest.get<std::string>();
  read(json, "epoch", position.epoch);
  read(json, "batch", position.batch);
  read(json, "row", position.row);
  read(json, "shard", position.shard);
  read(json, "rng_counter", position.rng_counter);
  read(json, "carry_tokens", position.carry_tokens);
}

}  // namespace headrace
