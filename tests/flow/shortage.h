// Memory and threads that run out, for all tests of this program: the hooks are in
// executor_failures_test.cpp.
#pragma once

#include <atomic>

namespace headrace::testing {

extern thread_local long allocations_left;  // of this thread, before one fails; below 0: no limit
extern std::atomic<long> threads_left;      // of the process

}  // namespace headrace::testing
