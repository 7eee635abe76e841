// The threads that sleep at one side of a channel. Not synchronised: the channel's mutex guards it.
// Layer: flow.
#pragma once

#include <cstdint>

namespace headrace {

template <typename Sync>
class WaitList {
 public:
  // A place in one list, on the stack of the thread that sleeps. The thread stays until it has
  // withdrawn the sleeper, so whoever holds the mutex may use it.
  struct Sleeper {
    typename Sync::Parker* parker = nullptr;  // may be shared by the places of one thread
    std::uint64_t bytes = 0;                  // of the item that a sender waits to send
    Sleeper *before = nullptr, *after = nullptr;
    bool queued = false;
  };

  bool empty() const { return first_ == nullptr; }

  void add(Sleeper& sleeper) {
    sleeper.before = last_;
    sleeper.after = nullptr;
    (last_ != nullptr ? last_->after : first_) = &sleeper;
    last_ = &sleeper;
    sleeper.queued = true;
  }

  void remove(Sleeper& sleeper) {
    (sleeper.before != nullptr ? sleeper.before->after : first_) = sleeper.after;
    (sleeper.after != nullptr ? sleeper.after->before : last_) = sleeper.before;
    sleeper.queued = false;
  }

  // Wakes the one that has slept longest.
  void wake_one() {
    if (first_ != nullptr) wake(*first_);
  }
  // Wakes all for whose bytes `may_go` holds.
  template <typename MayGo>
  void wake(MayGo may_go) {
    for (Sleeper* sleeper = first_; sleeper != nullptr;) {
      Sleeper& candidate = *sleeper;
      sleeper = sleeper->after;
      if (may_go(candidate.bytes)) wake(candidate);
    }
  }

 private:
  void wake(Sleeper& sleeper) {
    remove(sleeper);
    sleeper.parker->unpark();
  }

  Sleeper *first_ = nullptr, *last_ = nullptr;
};

}  // namespace headrace
