// Definitions of model.h.
#pragma once

#include <fmt/format.h>

#include "flow/explore/model.h"

namespace headrace::explore {

inline Object::Object() : id_(Model::current_ != nullptr ? ++Model::current_->objects_ : 0) {
  if (Model::current_ != nullptr) ++Model::current_->alive_;
}

inline Object::~Object() {
  if (Model* const model = Model::current_; model != nullptr) {
    --model->alive_;
    if (model->in_thread()) model->end_stores_to(*this);
  }
  // Volatile, since compilers leave out a store to an object that ends.
  *const_cast<volatile std::uint32_t*>(&id_) = Model::kDead;
}

inline void Model::end_stores_to(const Object& object) {
  for (unsigned t = 0; t < threads_.size(); ++t)
    for (const Stored& stored : threads_[t].buffer)
      if (stored.cell == &object) {
        if (t != running_)
          fail(fmt::format("{} destroys what {} still writes to", threads_[running_].name,
                           threads_[t].name));
        return drain_all(t);
      }
}

inline void Model::thread(std::string name, std::function<void()> body) {
  if (threads_.size() == kThreads) throw std::logic_error("too many threads for the model");
  threads_.push_back({std::move(name), std::move(body), {}, {}, false, false, false});
}

inline void Model::run() {
  for (unsigned t = 0; t < threads_.size(); ++t) fibers_[t].start(&Model::enter);
  schedule();
  running_ = kNobody;
  if (!failure_) return;
  for (unsigned t = 0; t < threads_.size(); ++t) fibers_[t].abandon();
  throw Failed(*failure_);
}

inline void Model::enter() {
  Fiber::entered();
  Model& model = *current_;
  Thread& self = model.threads_[model.running_];
  try {
    self.body();
  } catch (const std::exception& error) {
    model.fail(fmt::format("{} ends with an exception: {}", self.name, error.what()));
  }
  self.done = true;
  model.schedule();
}

inline void Model::fail(const std::string& what) {
  if (!in_thread()) throw Failed(what);
  failure_ = what;
  fibers_[running_].switch_to(main_);
  __builtin_unreachable();  // nobody comes back to a run that has failed
}

inline unsigned Model::choose(unsigned count) {
  if (!in_thread()) return 0;
  const unsigned chosen = strategy_.choose(count);
  choices_.push_back(static_cast<std::uint8_t>(chosen));
  return chosen;
}

inline void Model::pause(const Pending& pending) {
  threads_[running_].pending = pending;
  schedule();
}

inline void Model::schedule() {
  const unsigned from = running_;
  Fiber& here = in_thread() ? fibers_[from] : main_;
  while (true) {
    const bool ordinary = strategy_.only_ordinary() && ordinary_option();
    if (!ordinary) list_options();
    if (options_.empty()) {
      const bool all_done = std::all_of(threads_.begin(), threads_.end(),
                                        [](const Thread& thread) { return thread.done; });
      if (!all_done) fail("deadlock: " + who_waits());
      if (in_thread()) here.switch_to(main_);
      return;
    }
    const unsigned picked = ordinary ? 0 : strategy_.pick(options_, *this);
    choices_.push_back(static_cast<std::uint8_t>(picked));
    if (++steps_ > settings_.most_steps)
      fail(fmt::format("no end after {} steps", settings_.most_steps));
    const Actor actor = options_[picked].actor;
    if (actor >= kThreads) {
      drain(actor - kThreads);
      continue;
    }
    for (Thread& thread : threads_) thread.rests = false;
    if (in_thread()) threads_[from].held = !threads_[from].buffer.empty();
    in_a_row_ = actor == from ? in_a_row_ + 1 : 0;
    if (in_a_row_ >= kPatience && others_are_ready())
      fail(fmt::format("{} goes on for {} steps while others could: it waits without sleeping",
                       threads_[from].name, in_a_row_));
    running_ = actor;
    if (actor != from) here.switch_to(fibers_[actor]);
    return;
  }
}

inline bool Model::others_are_ready() const {
  for (unsigned t = 0; t < threads_.size(); ++t)
    if (t != running_ && ready(threads_[t])) return true;
  return false;
}

// What costs nothing while the running thread can go on: the store that it just made becomes
// visible, then it goes on.
inline bool Model::ordinary_option() {
  options_.clear();
  if (!in_thread()) return false;
  const Thread& self = threads_[running_];
  if (!self.buffer.empty() && !self.held)
    offer(kThreads + running_, true);
  else if (ready(self) && !self.rests)
    offer(running_, true);
  return !options_.empty();
}

// The ordinary course first. Where the running thread cannot go on, whoever does instead costs
// nothing.
inline void Model::list_options() {
  const bool fresh_store = ordinary_option() && options_.front().actor >= kThreads;
  if (fresh_store && ready(threads_[running_]) && !threads_[running_].rests) offer(running_, false);
  const bool preempts = !options_.empty();
  for (unsigned t = 0; t < threads_.size(); ++t) {
    if (t != running_ && ready(threads_[t]) && !threads_[t].rests) offer(t, !preempts);
  }
  for (unsigned t = 0; t < threads_.size(); ++t)
    if (!threads_[t].buffer.empty() && !(fresh_store && t == running_))
      offer(kThreads + t, options_.empty());
  if (options_.empty())
    for (unsigned t = 0; t < threads_.size(); ++t)
      if (ready(threads_[t])) offer(t, true);  // though it rests
  for (unsigned t = 0; t < threads_.size(); ++t)
    if (threads_[t].pending.deadline && !threads_[t].done && !ready(threads_[t]))
      offer(t, options_.empty());
}

inline void Model::drain(unsigned thread) {
  Thread& owner = threads_[thread];
  const Stored stored = owner.buffer.front();
  owner.buffer.erase(owner.buffer.begin());
  if (owner.buffer.empty()) owner.held = false;
  stored.cell->value_ = stored.value;
  record(static_cast<Actor>(kThreads + thread), "", stored.cell, stored.value, {});
}

inline void Model::check_alive(const Object& object, const Where& where) {
  if (object.id_ == kDead)
    fail(fmt::format("{} uses what is destroyed, {}:{}", threads_[running_].name, where.file_name(),
                     where.line()));
}

inline std::uint64_t Model::load(const Cell& cell, const Where& where) {
  if (!in_thread()) return cell.value_;
  pause({Kind::load, "load", cell.id_, where});
  check_alive(cell, where);
  std::uint64_t value = cell.value_;
  for (const Stored& stored : threads_[running_].buffer)
    if (stored.cell == &cell) value = stored.value;
  record(static_cast<Actor>(running_), "load", &cell, value, where);
  return value;
}

inline void Model::store(Cell& cell, std::uint64_t value, const Where& where) {
  if (!in_thread()) {
    cell.value_ = value;
    return;
  }
  pause({Kind::own, "store", cell.id_, where});
  check_alive(cell, where);
  threads_[running_].buffer.push_back({&cell, value});
  record(static_cast<Actor>(running_), "store", &cell, value, where);
}

template <typename Change>
std::uint64_t Model::update(const char* what, Cell& cell, const Where& where, Change change) {
  if (in_thread()) step(what, cell, where);
  const std::uint64_t old = cell.value_;
  cell.value_ = change(old);
  if (in_thread()) record(static_cast<Actor>(running_), "    now", &cell, cell.value_, where);
  return old;
}

inline bool Model::step(const char* what, const Object& object, const Where& where, Ready is_ready,
                        const void* argument, bool deadline) {
  if (!in_thread()) return true;
  pause({Kind::barrier, what, object.id_, where, is_ready, argument, deadline});
  check_alive(object, where);
  drain_all(running_);
  const bool in_time = is_ready == nullptr || is_ready(argument);
  record(static_cast<Actor>(running_), what, &object, in_time, where);
  return in_time;
}

inline void Model::touch(const char* what, const Object& object, const Where& where) {
  if (!in_thread()) return;
  pause({Kind::plain, what, object.id_, where});
  check_alive(object, where);
  record(static_cast<Actor>(running_), what, &object, 0, where);
}

// A barrier in a thread with an empty buffer does nothing, at whatever moment it comes, so only the
// others need a step.
inline void Model::barrier_everywhere(const Where& where) {
  if (!in_thread()) return;
  pause({Kind::everywhere, "heavy fence", 0, where});
  drain_all(running_);
  record(static_cast<Actor>(running_), "heavy fence", nullptr, 0, where);
  for (unsigned t = 0; t < threads_.size(); ++t) {
    if (threads_[t].buffer.empty()) continue;
    pause({Kind::everywhere, "heavy fence", 0, where});
    drain_all(t);
  }
}

inline bool Model::independent(Actor a, Actor b) const {
  if (a % kThreads == b % kThreads) return false;
  struct Access {
    std::uint32_t object;
    bool writes, everything;
  };
  const auto access = [this](Actor actor) -> Access {
    const Thread& thread = threads_[actor % kThreads];
    if (actor >= kThreads) return {thread.buffer.front().cell->id_, true, false};
    switch (thread.pending.kind) {
      case Kind::load:
        return {thread.pending.object, false, false};
      case Kind::plain:
        return {thread.pending.object, true, false};
      case Kind::own:
        return {0, false, false};
      case Kind::barrier:
        return {thread.pending.object, true, !thread.buffer.empty() || thread.pending.deadline};
      case Kind::everywhere:
        break;
    }
    return {0, true, true};
  };
  const Access first = access(a), second = access(b);
  if (first.everything || second.everything) return false;
  return first.object != second.object || (!first.writes && !second.writes);
}

inline std::string Model::who_waits() const {
  std::string text;
  for (const Thread& thread : threads_)
    if (!thread.done)
      text += fmt::format("{}{} {} #{}", text.empty() ? "" : "; ", thread.name, thread.pending.what,
                          thread.pending.object);
  return text;
}

}  // namespace headrace::explore
