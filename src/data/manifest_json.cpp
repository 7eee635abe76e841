#include <nlohmann/json.hpp>

#include "headrace/error.h"
#include "headrace/manifest.h"

namespace headrace {
namespace {

// nlohmann would turn -1 and 1.5 into some count.
std::uint64_t size_of(const nlohmann::json& file) {
  const nlohmann::json& size = file.at("size");
  if (!size.is_number_unsigned())
    fail(ErrorCode::bad_input, "manifest: size is {}, not a count", size.dump());
  return size.get<std::uint64_t>();
}

}  // namespace

void to_json(nlohmann::json& json, const Manifest& manifest) {
  json = {{"files", nlohmann::json::array()}};
  for (const ManifestFile& file : manifest.files)
    json["files"].push_back({{"path", file.path},
                             {"relative", file.relative},
                             {"size", file.size},
                             {"sha256", file.sha256},
                             {"full_sha256", file.full_sha256}});
}

void from_json(const nlohmann::json& json, Manifest& manifest) {
  try {
    manifest.files.clear();
    for (const nlohmann::json& file : json.at("files"))
      manifest.files.push_back({file.at("path"), file.at("relative"), size_of(file),
                                file.at("sha256"), file.at("full_sha256")});
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::bad_input, "manifest: {}", e.what());
  }
}

}  // namespace headrace
