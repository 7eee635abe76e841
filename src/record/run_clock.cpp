#include "record/run_clock.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <time.h>

namespace headrace {

bool MachineClocks::has_counter() {
#ifdef __x86_64__
  constexpr unsigned kPowerManagement = 0x80000007, kInvariantCounter = 1u << 8;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(kPowerManagement, &eax, &ebx, &ecx, &edx) != 0 &&
         (edx & kInvariantCounter) != 0;
#else
  return false;
#endif
}

std::int64_t MachineClocks::monotonic_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace headrace
