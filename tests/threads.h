// The threads of this process, for tests that none is left behind.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <semaphore>
#include <thread>

namespace headrace::testing {

// As the system lists them: one that was joined may still be listed for a moment.
inline std::size_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

// Those that there are before a test starts any. ThreadSanitizer has one of its own from the first
// on, which is therefore started here.
inline std::size_t threads_at_rest() {
  std::binary_semaphore counted(0);
  std::jthread first([&] { counted.acquire(); });
  const std::size_t count = threads() - 1;
  counted.release();
  return count;
}

inline bool threads_fall_to(std::size_t count) {
  for (int i = 0; i < 10'000 && threads() > count; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return threads() <= count;
}

}  // namespace headrace::testing
