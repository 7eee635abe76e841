#include "headrace/sync.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <thread>

namespace headrace {
namespace {

long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

// Waits while *word == value, at most until the deadline. False where it passed.
bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                const RealSync::Deadline& deadline) {
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, which is what steady_clock reads.
  timespec until{};
  if (deadline) {
    const auto since_boot = deadline->time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
    if (since_boot.count() < 0) return false;
    until.tv_sec = seconds.count();
    until.tv_nsec = (since_boot - seconds).count();
  }
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline ? &until : nullptr, nullptr,
          FUTEX_BITSET_MATCH_ANY);
  return !RealSync::passed(deadline);
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// To wait in place is of use only where another core can bring the change meanwhile.
std::uint32_t turns_of_pauses() {
  static const std::uint32_t turns = std::thread::hardware_concurrency() > 1 ? 20 : 0;
  return turns;
}

constexpr std::uint32_t kPausesPerTurn = 1;
constexpr std::uint32_t kYields = 32;

}  // namespace

const bool RealSync::asymmetric = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;

void RealSync::full_fence() noexcept {
#ifdef __SANITIZE_THREAD__  // knows no fences
  static std::atomic<int> any;
  any.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void RealSync::heavy_fence() noexcept {
  full_fence();
  if (asymmetric) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void RealSync::relax(std::uint32_t pauses) noexcept {
  for (; pauses > 0; --pauses) pause();
}

RealSync::Deadline RealSync::after(std::chrono::nanoseconds timeout) {
  const auto now = std::chrono::steady_clock::now();
  if (timeout > std::chrono::steady_clock::time_point::max() - now) return std::nullopt;
  return now + timeout;
}

void RealSync::Parker::park(const Deadline& deadline) noexcept {
  std::uint32_t expected = awake;
  if (state_.compare_exchange_strong(expected, asleep))
    while (state_.load() == asleep && futex_wait(state_, asleep, deadline)) {
    }
  state_.store(awake);
}

void RealSync::Parker::unpark() noexcept {
  if (state_.exchange(token) == asleep)
    syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

bool RealSync::Spinner::spin() noexcept {
  const std::uint32_t pauses = turns_of_pauses();
  if (turns_ >= pauses + kYields) return false;
  if (turns_++ < pauses) {
    relax(kPausesPerTurn);
  } else {
    sched_yield();
  }
  return true;
}

}  // namespace headrace
