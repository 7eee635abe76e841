// The synchronisation policy of headrace/sync.h over a model: every operation is a step that a
// scheduler orders.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "flow/explore/model.h"

namespace headrace::explore {

// What the callbacks of one source share. As in libstdc++, all but stop_requested() lock, and so are
// full barriers.
class StopState : public Cell {
 public:
  struct Callback {
    virtual ~Callback() = default;
    virtual void call() = 0;
    bool done = false;          // called, and returned
    bool* destroyed = nullptr;  // while it is called
  };

  StopState() : Cell(0) {}

  bool requested(const Where& where) const { return Model::current()->load(*this, where) != 0; }
  bool request(const Where& where);
  // Calls at once where a stop was requested before.
  void add(Callback& callback, const Where& where);
  void remove(Callback& callback, const Where& where);

 private:
  std::vector<Callback*> callbacks_;
  unsigned caller_ = 0;  // the thread that requests, once one does
};

struct ModelSync {
  template <typename T>
  class Atomic;
  class Mutex;
  class Parker;
  class Spinner;
  class StopToken;
  class StopSource;
  template <typename Function>
  class StopCallback;

  // Time is of the model: it goes on where the scheduler says so.
  using Time = std::chrono::steady_clock::time_point;
  using Deadline = std::optional<Time>;

  static void light_fence() noexcept {}
  static void heavy_fence(Where where = Where::current()) noexcept {
    Model& model = *Model::current();
    if (!model.settings().faults.light_fences_only) model.barrier_everywhere(where);
  }
  static void relax(std::uint32_t) noexcept {}
  static Deadline after(std::chrono::nanoseconds timeout) {
    return Time(std::chrono::nanoseconds(Model::current()->now) + timeout);
  }
  static bool passed(const Deadline& deadline) {
    if (!deadline) return false;
    Model& model = *Model::current();
    if (deadline->time_since_epoch().count() <= model.now) return true;
    if (model.choose(2) == 0) return false;
    pass(deadline);
    return true;
  }

 private:
  static void pass(const Deadline& deadline) {
    Model& model = *Model::current();
    model.now = std::max<std::int64_t>(model.now, deadline->time_since_epoch().count());
  }
};

template <typename T>
class ModelSync::Atomic : private Cell {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  using Order = std::memory_order;

 public:
  Atomic() : Atomic(T()) {}
  Atomic(T value) : Cell(bits(value)) {}  // NOLINT: as std::atomic's

  T load(Order = Order::seq_cst, Where where = Where::current()) const {
    return value(Model::current()->load(*this, where));
  }
  void store(T to, Order order = Order::seq_cst, Where where = Where::current()) {
    if (order == Order::seq_cst)
      exchange(to, order, where);
    else
      Model::current()->store(*this, bits(to), where);
  }
  T exchange(T to, Order = Order::seq_cst, Where where = Where::current()) {
    return update("exchange", where, [&](T) { return to; });
  }
  bool compare_exchange_strong(T& expected, T to, Order, Order, Where where = Where::current()) {
    const T old =
        update("compare_exchange", where, [&](T now) { return same(now, expected) ? to : now; });
    if (same(old, expected)) return true;
    expected = old;
    return false;
  }
  bool compare_exchange_strong(T& expected, T to, Order order = Order::seq_cst,
                               Where where = Where::current()) {
    return compare_exchange_strong(expected, to, order, order, where);
  }
  bool compare_exchange_weak(T& expected, T to, Order success, Order failure,
                             Where where = Where::current()) {
    return compare_exchange_strong(expected, to, success, failure, where);
  }
  bool compare_exchange_weak(T& expected, T to, Order order = Order::seq_cst,
                             Where where = Where::current()) {
    return compare_exchange_strong(expected, to, order, order, where);
  }
  T fetch_add(T by, Order = Order::seq_cst, Where where = Where::current()) {
    return update("fetch_add", where, [&](T now) { return static_cast<T>(now + by); });
  }
  T fetch_sub(T by, Order = Order::seq_cst, Where where = Where::current()) {
    return update("fetch_sub", where, [&](T now) { return static_cast<T>(now - by); });
  }
  T fetch_or(T with, Order = Order::seq_cst, Where where = Where::current()) {
    return update("fetch_or", where, [&](T now) { return static_cast<T>(now | with); });
  }
  T fetch_and(T with, Order = Order::seq_cst, Where where = Where::current()) {
    return update("fetch_and", where, [&](T now) { return static_cast<T>(now & with); });
  }

 private:
  static std::uint64_t bits(T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
  static T value(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  static bool same(T a, T b) { return bits(a) == bits(b); }
  template <typename Change>
  T update(const char* what, const Where& where, Change change) {
    return value(Model::current()->update(
        what, *this, where, [&](std::uint64_t old) { return bits(change(value(old))); }));
  }
};

class ModelSync::Mutex : private Object {
 public:
  void lock(Where where = Where::current()) {
    Model::current()->step("locks", *this, where, &Mutex::is_free, this);
    locked_ = true;
  }
  bool try_lock(Where where = Where::current()) {
    Model::current()->step("tries to lock", *this, where);
    return !std::exchange(locked_, true);
  }
  void unlock(Where where = Where::current()) {
    Model::current()->step("unlocks", *this, where);
    locked_ = false;
  }

 private:
  static bool is_free(const void* self) { return !static_cast<const Mutex*>(self)->locked_; }
  bool locked_ = false;
};

class ModelSync::Parker : private Object {
 public:
  void park(const Deadline& deadline, Where where = Where::current()) noexcept {
    parked_ = true;
    const bool woken = Model::current()->step("parks", *this, where, &Parker::has_token, this,
                                              deadline.has_value());
    if (!woken) pass(deadline);
    parked_ = token_ = false;
  }
  void unpark(Where where = Where::current()) noexcept {
    Model& model = *Model::current();
    model.step("unparks", *this, where);
    const Faults& faults = model.settings().faults;
    if (++model.unparks == faults.lost_unpark || (faults.no_tokens && !parked_)) return;
    token_ = true;
  }

 private:
  static bool has_token(const void* self) { return static_cast<const Parker*>(self)->token_; }
  bool token_ = false, parked_ = false;
};

class ModelSync::Spinner {
 public:
  bool spin() noexcept {
    Model& model = *Model::current();
    if (turns_ == model.settings().spins || model.choose(2) == 0) return false;
    ++turns_;
    model.yield();
    return true;
  }

 private:
  unsigned turns_ = 0;
};

class ModelSync::StopToken {
 public:
  StopToken() = default;
  bool stop_requested(Where where = Where::current()) const {
    return state_ != nullptr && state_->requested(where);
  }
  bool stop_possible() const { return state_ != nullptr; }

 private:
  friend class StopSource;
  template <typename Function>
  friend class StopCallback;
  std::shared_ptr<StopState> state_;
};

class ModelSync::StopSource {
 public:
  StopToken get_token() const {
    StopToken token;
    token.state_ = state_;
    return token;
  }
  bool request_stop(Where where = Where::current()) { return state_->request(where); }

 private:
  std::shared_ptr<StopState> state_ = std::make_shared<StopState>();
};

template <typename Function>
class ModelSync::StopCallback : private StopState::Callback {
 public:
  template <typename F>
  StopCallback(const StopToken& token, F&& function, Where where = Where::current())
      : state_(token.state_), function_(std::forward<F>(function)), where_(where) {
    if (state_) state_->add(*this, where_);
  }
  StopCallback(const StopCallback&) = delete;
  StopCallback& operator=(const StopCallback&) = delete;
  ~StopCallback() override {
    if (state_) state_->remove(*this, where_);
  }

 private:
  void call() override { function_(); }

  const std::shared_ptr<StopState> state_;
  Function function_;
  const Where where_;
};

}  // namespace headrace::explore

#include "flow/explore/stop-inl.h"
