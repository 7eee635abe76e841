// Where each trainable tensor lies in a flat array: in the order of names, without gaps. No
// libtorch here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headrace {

struct FlatLayout {
  struct Entry {
    std::string name;
    std::vector<std::int64_t> shape;
    std::size_t offset = 0, elements = 0;
  };
  std::vector<Entry> entries;
  std::size_t elements = 0;  // of all
};

}  // namespace headrace
