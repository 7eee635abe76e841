// The calling thread: its name, cores, priority, and what it waits for. Layer: flow.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace headrace {

// As debuggers and top show it: the first 15 bytes of `name`.
void name_thread(const std::string& name);

// Restricts the calling thread to these cores, and so the threads it starts later; none: no change.
// Error(resource) names a core that this machine, or this process, does not have.
void pin_to(const std::vector<int>& cores);

// Cores that the calling thread may run on, ascending.
std::vector<int> allowed_cores();

// Raises the nice value of the calling thread alone to `nice`, 1 to 19. It never lowers one.
void lower_priority(int nice = 10);

// Where a thread says that it waits, and for what, so that a watchdog can tell it from one that
// works. The watched thread installs one; waits inside library calls then show in it; any thread
// may read.
class ThreadWait {
 public:
  struct Snapshot {
    std::uint64_t changes = 0;  // waits begun and ended so far: the same number, the same wait
    std::optional<std::string>
        waits_to;  // "receive from features: 0/4 items"; nullopt: does not wait
  };

  // Makes this the object of the calling thread until destruction (in the same thread).
  void install();
  ~ThreadWait();
  Snapshot snapshot() const;

  // Covers one blocking wait. `describe` is called at once, and only where the thread is watched.
  class Scope {
   public:
    template <typename Describe>
    explicit Scope(Describe describe) : wait_(of_this_thread()) {
      if (wait_ != nullptr) wait_->set(describe());
    }
    ~Scope() {
      if (wait_ != nullptr) wait_->set(std::nullopt);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ThreadWait* wait_;
  };

 private:
  static ThreadWait* of_this_thread();
  void set(std::optional<std::string> waits_to);

  mutable std::mutex mutex_;
  Snapshot now_;
};

}  // namespace headrace
