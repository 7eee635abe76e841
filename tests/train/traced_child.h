// A child process that stops before each of its system calls, where a test may kill it or let the
// call fail. Between two calls nothing changes on the disk, so this is every instant of a crash.
// x86-64, as the rest.
#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace headrace::testing {

struct SystemCall {
  pid_t process;
  user_regs_struct registers;

  std::uint64_t number() const { return registers.orig_rax; }
  // The n-th argument, from 0: a path, a number, or the file behind a descriptor.
  std::uint64_t value(int n) const {
    const auto& r = registers;
    return n == 0 ? r.rdi : n == 1 ? r.rsi : n == 2 ? r.rdx : r.r10;
  }
  std::string path(int n) const {
    std::ifstream memory("/proc/" + std::to_string(process) + "/mem", std::ios::binary);
    memory.seekg(static_cast<std::streamoff>(value(n)));
    std::string text;
    std::getline(memory, text, '\0');
    return text;
  }
  std::string file(int n) const {
    std::error_code absent;
    return std::filesystem::read_symlink(
        "/proc/" + std::to_string(process) + "/fd/" + std::to_string(value(n)), absent);
  }
};

inline constexpr int kGoOn = 0, kKill = -1;  // else: the call is not made and gives this errno
inline constexpr int kKilled = 1000, kUntraceable = 1001;

// Runs `body` in a child, asking `before` at each system call. Returns the child's exit status,
// kKilled, or kUntraceable where the system forbids tracing.
inline int run_traced(const std::function<int()>& body,
                      const std::function<int(const SystemCall&)>& before) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(255);
    ::raise(SIGSTOP);
    ::_exit(body());
  }
  int status = 0, refused = kGoOn, signal = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) return kUntraceable;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (bool entering = true;;) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (WIFSIGNALED(status)) return kKilled;
    signal = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
    if (signal != 0) continue;  // of somebody else: passed on
    SystemCall call{child, {}};
    ::ptrace(PTRACE_GETREGS, child, nullptr, &call.registers);
    if (entering) {
      refused = before(call);
      if (refused == kKill) ::kill(child, SIGKILL);
      if (refused > 0) call.registers.orig_rax = static_cast<unsigned long long>(-1);
    } else if (refused > 0) {
      call.registers.rax = static_cast<unsigned long long>(-refused);
    }
    if (refused > 0) ::ptrace(PTRACE_SETREGS, child, nullptr, &call.registers);
    entering = !entering;
  }
}

}  // namespace headrace::testing
