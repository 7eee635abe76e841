#include "train/memory.h"

#include <fstream>
#include <string>

namespace headrace {
namespace {

std::uint64_t status_field(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.compare(0, key.size(), key) == 0) return std::stoull(line.substr(key.size())) * 1024;
  return 0;
}

}  // namespace

std::uint64_t peak_memory_bytes() {
  return status_field("VmHWM:");
}

}  // namespace headrace
