// Notices that nothing moves any more.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace headrace {

class Watchdog {
 public:
  // Nothing while something works; otherwise a number that any progress changes.
  using Probe = std::function<std::optional<std::uint64_t>()>;

  // Calls `on_hang`, in a thread of its own, each time that `probe` has given the same number for
  // `seconds` (> 0); again only after progress. It asks eight times in that span.
  Watchdog(double seconds, Probe probe, std::function<void()> on_hang);

 private:
  void watch(std::stop_token stop, double seconds, const Probe& probe,
             const std::function<void()>& on_hang);

  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: joined first
};

}  // namespace headrace
