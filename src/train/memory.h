// What a run needs, and what it used. Bytes.
#pragma once

#include <cstdint>

namespace headrace {

std::uint64_t peak_memory_bytes();      // of this process so far: VmHWM
std::uint64_t resident_memory_bytes();  // now: VmRSS

}  // namespace headrace
