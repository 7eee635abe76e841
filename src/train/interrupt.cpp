#include "train/interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace headrace {
namespace {

volatile sig_atomic_t count = 0;

void on_signal(int) {
  if (count > 0) _exit(130);
  count = 1;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() {
  return count > 0;
}

}  // namespace headrace
