#include "headrace/device_event.h"

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "headrace/thread.h"

namespace headrace {

struct DeviceEvent::State {
  std::mutex mutex;
  std::atomic<bool> fired = false;
  Calls then;

  ~State() { fire(); }

  void fire() {
    Calls due;
    {
      const std::lock_guard lock(mutex);
      fired.store(true, std::memory_order_release);
      due.swap(then);
    }
    for (const auto& call : due) call();
  }
};

DeviceEvent::DeviceEvent() : state_(std::make_shared<State>()) {}

bool DeviceEvent::fired() const {
  return state_->fired.load(std::memory_order_acquire);
}

void DeviceEvent::on_fired(std::function<void()> then) const {
  Calls one;
  one.push_back(std::move(then));
  on_fired(std::move(one));
}

void DeviceEvent::on_fired(Calls then) const noexcept {
  {
    const std::lock_guard lock(state_->mutex);
    if (!fired()) return state_->then.splice(state_->then.end(), then);
  }
  for (const auto& call : then) call();
}

void DeviceEvent::fire() const {
  state_->fire();
}

CpuStream::CpuStream() : thread_([this](std::stop_token stop) { serve(std::move(stop)); }) {}

CpuStream::~CpuStream() = default;

void CpuStream::copy(void* to, const void* from, std::size_t bytes) {
  run([=] { std::memcpy(to, from, bytes); });
}

DeviceEvent CpuStream::record() {
  DeviceEvent event;
  run([event] { event.fire(); });
  return event;
}

void CpuStream::run(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  queued_.notify_one();
}

void CpuStream::serve(std::stop_token stop) {
  name_thread("cpu stream");
  std::unique_lock lock(mutex_);
  while (queued_.wait(lock, stop, [this] { return !queue_.empty(); })) {
    {
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
    }
    lock.lock();
  }
}

struct Credits::State {
  const std::string name;
  const std::uint64_t total;
  std::mutex mutex;
  std::condition_variable_any changed;
  std::uint64_t available;
  std::list<std::uint64_t> waiting;  // amounts asked for, oldest first

  void give_back(std::uint64_t amount) {
    const std::lock_guard lock(mutex);
    available += amount;
    changed.notify_all();
  }
  std::string describe() const {
    return fmt::format("{}: {} of {} credits in use", name, total - available, total);
  }
};

Credits::Credits(std::string name, std::uint64_t total)
    : state_(new State{.name = std::move(name), .total = total, .available = total}) {
  if (total == 0)
    fail(ErrorCode::bad_input, "credits {}: a total of 0 admits nothing; give at least 1",
         state_->name);
}

Status Credits::acquire(Credit& credit, std::uint64_t amount, std::stop_token stop) {
  return acquire_until(std::nullopt, Status::timed_out, credit, amount, stop);
}

Status Credits::try_acquire(Credit& credit, std::uint64_t amount) {
  return acquire_until(std::chrono::steady_clock::time_point::min(), Status::would_block, credit,
                       amount, {});
}

Status Credits::acquire_for(std::chrono::nanoseconds timeout, Credit& credit, std::uint64_t amount,
                            std::stop_token stop) {
  return acquire_until(RealSync::after(timeout), Status::timed_out, credit, amount, stop);
}

Status Credits::acquire_until(RealSync::Deadline deadline, Status at_deadline, Credit& credit,
                              std::uint64_t amount, const std::stop_token& stop) {
  State& s = *state_;
  if (amount == 0 || amount > s.total)
    fail(ErrorCode::bad_input, "credits {}: {} asked for, but one can hold 1 to {}", s.name, amount,
         s.total);
  std::unique_lock lock(s.mutex);
  if (!s.waiting.empty() || s.available < amount) {
    if (RealSync::passed(deadline)) return at_deadline;
    const ThreadWait::Scope scope(
        [&] { return fmt::format("acquire {} from {}", amount, s.describe()); });
    const auto place = s.waiting.insert(s.waiting.end(), amount);
    const auto ready = [&] { return place == s.waiting.begin() && s.available >= amount; };
    const bool got = deadline ? s.changed.wait_until(lock, stop, *deadline, ready)
                              : s.changed.wait(lock, stop, ready);
    s.waiting.erase(place);
    s.changed.notify_all();  // the next in line may have been held up by this one alone
    if (!got) return stop.stop_requested() ? Status::stopped : at_deadline;
  }
  Credit taken;
  taken.give_back_.emplace_back([state = state_, amount] { state->give_back(amount); });
  taken.amount_ = amount;
  s.available -= amount;  // not before there was memory
  lock.unlock();          // what `credit` holds may return to these credits
  credit = std::move(taken);
  return Status::ok;
}

std::uint64_t Credits::total() const {
  return state_->total;
}

std::uint64_t Credits::available() const {
  const std::lock_guard lock(state_->mutex);
  return state_->available;
}

std::string Credits::describe() const {
  const std::lock_guard lock(state_->mutex);
  return state_->describe();
}

Credits::Credit& Credits::Credit::operator=(Credit&& other) noexcept {
  if (this == &other) return *this;
  release();
  amount_ = std::exchange(other.amount_, 0);
  give_back_ = std::exchange(other.give_back_, {});
  return *this;
}

void Credits::Credit::release() noexcept {
  amount_ = 0;
  for (const auto& call : std::exchange(give_back_, {})) call();
}

void Credits::Credit::release_after(const DeviceEvent& event) noexcept {
  amount_ = 0;
  event.on_fired(std::exchange(give_back_, {}));
}

struct StagingSlots::State {
  const std::shared_ptr<std::byte[]> memory;
  const std::size_t slot_bytes;
  std::mutex mutex;
  std::vector<std::size_t> free;  // indices; it has room for all of them

  void give_back(std::size_t index) {
    const std::lock_guard lock(mutex);
    free.push_back(index);
  }
};

StagingSlots::StagingSlots(std::string name, std::shared_ptr<std::byte[]> memory, std::size_t slots,
                           std::size_t slot_bytes)
    : credits_(std::move(name), slots),
      state_(new State{.memory = std::move(memory), .slot_bytes = slot_bytes}) {
  for (std::size_t i = slots; i-- > 0;) state_->free.push_back(i);
}

Status StagingSlots::acquire(Slot& slot, std::stop_token stop) {
  Credits::Credit credit;
  return take(credits_.acquire(credit, 1, std::move(stop)), std::move(credit), slot);
}

Status StagingSlots::try_acquire(Slot& slot) {
  Credits::Credit credit;
  return take(credits_.try_acquire(credit), std::move(credit), slot);
}

Status StagingSlots::acquire_for(std::chrono::nanoseconds timeout, Slot& slot,
                                 std::stop_token stop) {
  Credits::Credit credit;
  return take(credits_.acquire_for(timeout, credit, 1, std::move(stop)), std::move(credit), slot);
}

// `credit` says that there is a free index, and is given back after it.
Status StagingSlots::take(Status status, Credits::Credit&& credit, Slot& slot) {
  if (status != Status::ok) return status;
  Slot taken;
  {
    const std::lock_guard lock(state_->mutex);
    const std::size_t index = state_->free.back();
    taken.give_back_.emplace_back([state = state_, index] { state->give_back(index); });
    taken.bytes_ = {state_->memory.get() + index * state_->slot_bytes, state_->slot_bytes};
    state_->free.pop_back();
  }
  taken.give_back_.splice(taken.give_back_.end(), credit.give_back_);
  slot = std::move(taken);
  return Status::ok;
}

StagingSlots::Slot& StagingSlots::Slot::operator=(Slot&& other) noexcept {
  if (this == &other) return *this;
  release();
  bytes_ = std::exchange(other.bytes_, {});
  give_back_ = std::exchange(other.give_back_, {});
  return *this;
}

void StagingSlots::Slot::release() noexcept {
  bytes_ = {};
  for (const auto& call : std::exchange(give_back_, {})) call();
}

void StagingSlots::Slot::release_after(const DeviceEvent& event) noexcept {
  bytes_ = {};
  event.on_fired(std::exchange(give_back_, {}));
}

}  // namespace headrace
