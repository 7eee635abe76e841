// One run of a program of several threads under a controlled scheduler: the threads are fibers of
// one thread, and at each operation on a shared object a strategy says who goes on.
//
// Memory is that of x86 (P. Sewell and others, x86-TSO, 2010): a store enters its thread's buffer, a
// load sees the newest store to its object in the buffer of its own thread, else memory, and the
// oldest store of a buffer reaches memory at some later step. Atomic updates and fences empty the
// buffer of their thread first.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "flow/explore/fiber.h"
#include "flow/explore/strategy.h"
#include "flow/explore/trace.h"

namespace headrace::explore {

using Where = std::source_location;

// Bugs to plant into what the program synchronises with. A test of a protocol has to find them.
struct Faults {
  bool light_fences_only = false;  // heavy_fence() does nothing to the other threads
  unsigned lost_unpark = 0;        // the n-th unpark() of a run is lost; 0: none
  bool no_tokens = false;          // an unpark() that comes before the park() is lost
  bool silent_stops = false;       // stop callbacks are not called
};

struct Settings {
  Faults faults;
  unsigned spins = 0;               // the most times that a Spinner may say to look again
  std::uint64_t most_steps = 5000;  // a run that takes more never ends
};

// What ends a run whose program is wrong.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Shared state with an identity. Using one after its destruction is a failure.
class Object {
 public:
  Object();
  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

 private:
  friend class Model;
  std::uint32_t id_;
};

// A shared object of up to eight bytes.
class Cell : public Object {
 public:
  explicit Cell(std::uint64_t value) : value_(value) {}

 private:
  friend class Model;
  std::uint64_t value_;  // in memory; newer ones may be in buffers
};

class Model final : public Steps {
 public:
  // The thread that stands at an operation may go on; `argument` is the operation's.
  using Ready = bool (*)(const void* argument);

  Model(Strategy& strategy, const Settings& settings, bool traced)
      : strategy_(strategy), settings_(settings), traced_(traced) {
    current_ = this;
    threads_.reserve(kThreads);  // they stay where they are
    choices_.reserve(512);
  }
  ~Model() override { current_ = nullptr; }

  // For the program. Threads run between run()'s begin and its end, all to their ends.
  void thread(std::string name, std::function<void()> body);
  void run();
  // A property of the program; a thread that breaks it ends the run.
  void require(bool holds, const std::string& what) {
    if (!holds) fail(what);
  }
  [[noreturn]] void fail(const std::string& what);

  // For the policy. Outside threads operations happen at once, without a step.
  static Model* current() { return current_; }
  bool in_thread() const { return running_ != kNobody; }
  unsigned self() const { return running_; }
  const Settings& settings() const { return settings_; }
  unsigned choose(unsigned count);
  // The calling thread has nothing to do but wait: others go first.
  void yield() { threads_[running_].rests = true; }

  std::uint64_t load(const Cell& cell, const Where& where);
  std::uint64_t peek(const Cell& cell) const { return cell.value_; }  // of memory, without a step
  void store(Cell& cell, std::uint64_t value, const Where& where);
  // Returns the old value; `change` gives the new one.
  template <typename Change>
  std::uint64_t update(const char* what, Cell& cell, const Where& where, Change change);
  // Any other step on an object, a full barrier: waits until `ready`, if given. Returns false where
  // it ends because `deadline` may pass and did.
  bool step(const char* what, const Object& object, const Where& where, Ready ready = nullptr,
            const void* argument = nullptr, bool deadline = false);
  // A plain access to an object, in memory at once.
  void touch(const char* what, const Object& object, const Where& where);
  // Every other thread passes a full barrier, one after the other.
  void barrier_everywhere(const Where& where);

  // For the explorer.
  const Trace& trace() const { return trace_; }
  const std::vector<std::uint8_t>& choices() const { return choices_; }
  std::int64_t alive() const { return alive_; }  // objects
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Thread& thread : threads_) names.push_back(thread.name);
    return names;
  }
  bool independent(Actor a, Actor b) const override;

  std::int64_t now = 0;  // nanoseconds that have passed
  unsigned unparks = 0;  // so far

 private:
  friend class Object;
  static constexpr unsigned kNobody = ~0u;
  // No thread needs so many steps in a row for what programs let it do.
  static constexpr unsigned kPatience = 200;
  static constexpr std::uint32_t kDead = ~0u;

  // What a step touches: one object (load, plain, barrier), its thread's own buffer, everything.
  enum class Kind : std::uint8_t { load, plain, own, barrier, everywhere };
  struct Pending {
    Kind kind = Kind::own;
    const char* what = "starts";
    std::uint32_t object = 0;
    Where where;
    Ready ready = nullptr;
    const void* argument = nullptr;
    bool deadline = false;
  };
  struct Stored {
    Cell* cell;
    std::uint64_t value;
  };
  struct Thread {
    std::string name;
    std::function<void()> body;
    Pending pending;
    std::vector<Stored> buffer;
    bool held = false;   // the buffer is not emptied at once
    bool rests = false;  // until another has taken a step, unless there is no other
    bool done = false;
  };

  static void enter();
  void pause(const Pending& pending);  // until it is this thread's turn to do it
  void schedule();                     // switches to whoever is next
  void list_options();
  bool others_are_ready() const;
  bool ordinary_option();  // makes it the only one, if there is one
  void offer(unsigned actor, bool free) {
    options_.push_back({static_cast<Actor>(actor), static_cast<std::uint8_t>(free ? 0 : 1)});
  }
  bool ready(const Thread& thread) const {
    return !thread.done &&
           (thread.pending.ready == nullptr || thread.pending.ready(thread.pending.argument));
  }
  void drain(unsigned thread);  // the oldest store
  void drain_all(unsigned thread) {
    while (!threads_[thread].buffer.empty()) drain(thread);
  }
  void check_alive(const Object& object, const Where& where);
  void record(Actor actor, const char* what, const Object* object, std::uint64_t value,
              const Where& where) {
    if (traced_) trace_.add({actor, what, object ? object->id_ : 0, value, where});
  }
  void end_stores_to(const Object& object);
  std::string who_waits() const;

  static inline Model* current_ = nullptr;
  static inline std::array<Fiber, kThreads> fibers_;
  static inline Fiber main_;

  Strategy& strategy_;
  const Settings& settings_;
  const bool traced_;
  std::vector<Thread> threads_;
  unsigned running_ = kNobody;
  unsigned in_a_row_ = 0;
  std::uint64_t steps_ = 0;
  std::uint32_t objects_ = 0;
  std::int64_t alive_ = 0;
  std::vector<Option> options_;
  std::vector<std::uint8_t> choices_;
  std::optional<std::string> failure_;
  Trace trace_;
};

}  // namespace headrace::explore

#include "flow/explore/model-inl.h"
