#include "headrace/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "headrace/error.h"

namespace headrace {
namespace {

thread_local ThreadWait* installed = nullptr;

}  // namespace

void name_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

void pin_to(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores)
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  const bool accepted = sched_setaffinity(0, sizeof set, &set) == 0;
  // The kernel passes over cores that do not exist, as long as one does: look what came of it.
  const std::vector<int> now = allowed_cores();
  for (const int core : cores)
    if (!accepted || std::find(now.begin(), now.end(), core) == now.end())
      fail(ErrorCode::resource, "cannot pin a thread to core {}: this process may run on cores {}",
           core, fmt::join(now, " "));
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    fail(ErrorCode::resource, "cannot read the cores of this thread: {}", std::strerror(errno));
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

void lower_priority(int nice) {
  const id_t self = static_cast<id_t>(gettid());
  // Linux keeps nice values by thread. Raising one needs no permission, so there is nothing to
  // report.
  if (getpriority(PRIO_PROCESS, self) < nice) setpriority(PRIO_PROCESS, self, nice);
}

void ThreadWait::install() {
  installed = this;
}

ThreadWait::~ThreadWait() {
  if (installed == this) installed = nullptr;
}

ThreadWait* ThreadWait::of_this_thread() {
  return installed;
}

ThreadWait::Snapshot ThreadWait::snapshot() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void ThreadWait::set(std::optional<std::string> waits_to) {
  const std::lock_guard lock(mutex_);
  ++now_.changes;
  now_.waits_to = std::move(waits_to);
}

}  // namespace headrace
