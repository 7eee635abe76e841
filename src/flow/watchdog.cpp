#include "flow/watchdog.h"

#include <chrono>
#include <utility>

#include "headrace/thread.h"

namespace headrace {

Watchdog::Watchdog(double seconds, Probe probe, std::function<void()> on_hang)
    : thread_([this, seconds, probe = std::move(probe), on_hang = std::move(on_hang)](
                  std::stop_token stop) { watch(std::move(stop), seconds, probe, on_hang); }) {}

void Watchdog::watch(std::stop_token stop, double seconds, const Probe& probe,
                     const std::function<void()>& on_hang) {
  name_thread("watchdog");
  constexpr int kLooks = 8;
  const std::chrono::duration<double> pause(seconds / kLooks);
  std::optional<std::uint64_t> last;
  int same = 0;  // looks in a row that found `last` again
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); })) {
    const std::optional<std::uint64_t> now = probe();
    same = now && now == last ? same + 1 : 0;
    last = now;
    if (same == kLooks) on_hang();
  }
}

}  // namespace headrace
