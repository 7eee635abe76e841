#include "train/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace headrace {
namespace {

std::atomic<int> count = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int) {
  if (count.exchange(1) > 0) _exit(130);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // a checkpoint that is being written goes on
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before = {};  // nohup has a run go on without its terminal
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

bool interrupted() {
  return count > 0;
}

}  // namespace headrace
