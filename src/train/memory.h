// What a run used. Bytes.
#pragma once

#include <cstdint>

namespace headrace {

std::uint64_t peak_memory_bytes();  // of this process so far: VmHWM

}  // namespace headrace
