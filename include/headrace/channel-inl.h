// Definitions of channel.h. Layer: flow.
#pragma once

#include <deque>
#include <utility>

#include "headrace/channel.h"
#include "headrace/quantity.h"
#include "headrace/thread.h"

namespace headrace {

// Stands in the channel's list of sleepers for as long as it lives. Its maker looks once more, after
// the barrier, before it sleeps.
template <typename T, template <typename, typename> class Ring, typename Sync>
class BasicChannel<T, Ring, Sync>::Place {
 public:
  Place(BasicChannel& channel, Side side, typename Sync::Parker& parker, std::uint64_t bytes = 0)
      : channel_(channel), side_(side), sleeper_{&parker, bytes} {
    {
      const Lock lock(channel_.mutex_);
      channel_.sleepers_[side_].add(sleeper_);
      channel_.count_sleepers();
    }
    Sync::heavy_fence();
  }
  ~Place() {
    const Lock lock(channel_.mutex_);
    if (sleeper_.queued) channel_.sleepers_[side_].remove(sleeper_);
    channel_.count_sleepers();
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  BasicChannel& channel_;
  const Side side_;
  typename WaitList<Sync>::Sleeper sleeper_;
};

template <typename T, template <typename, typename> class Ring, typename Sync>
BasicChannel<T, Ring, Sync>::BasicChannel(std::string name, ChannelLimits limits)
    : name_(std::move(name)), ring_(checked(limits)) {}

template <typename T, template <typename, typename> class Ring, typename Sync>
const ChannelLimits& BasicChannel<T, Ring, Sync>::checked(const ChannelLimits& limits) const {
  if (limits.items == 0)
    fail(ErrorCode::bad_input, "channel {}: a bound of 0 items admits nothing; give at least 1",
         name_);
  if (limits.items > kMostItems)
    fail(ErrorCode::bad_input, "channel {}: a bound of {} items; give at most {}", name_,
         limits.items, kMostItems);
  return limits;
}

template <typename T, template <typename, typename> class Ring, typename Sync>
inline Status BasicChannel<T, Ring, Sync>::send(T&& item, std::uint64_t bytes,
                                                const StopToken& stop) {
  const Status status = try_send(std::move(item), bytes);
  return status != Status::would_block ? status : send_until({}, item, bytes, stop);
}

template <typename T, template <typename, typename> class Ring, typename Sync>
inline Status BasicChannel<T, Ring, Sync>::try_send(T&& item, std::uint64_t bytes) {
  check_size(bytes);
  return attempt_send(item, bytes);
}

template <typename T, template <typename, typename> class Ring, typename Sync>
Status BasicChannel<T, Ring, Sync>::send_for(std::chrono::nanoseconds timeout, T&& item,
                                             std::uint64_t bytes, const StopToken& stop) {
  return send_until(Sync::after(timeout), item, bytes, stop);
}

template <typename T, template <typename, typename> class Ring, typename Sync>
inline Status BasicChannel<T, Ring, Sync>::receive(T& item, const StopToken& stop) {
  const Status status = attempt_receive(item);
  if (status != Status::would_block) return status;
  return receive_until({}, stop, [&] { return attempt_receive(item); });
}

template <typename T, template <typename, typename> class Ring, typename Sync>
inline Status BasicChannel<T, Ring, Sync>::try_receive(T& item) {
  return attempt_receive(item);
}

template <typename T, template <typename, typename> class Ring, typename Sync>
Status BasicChannel<T, Ring, Sync>::receive_for(std::chrono::nanoseconds timeout, T& item,
                                                const StopToken& stop) {
  return receive_until(Sync::after(timeout), stop, [&] { return attempt_receive(item); });
}

template <typename T, template <typename, typename> class Ring, typename Sync>
Status BasicChannel<T, Ring, Sync>::receive_batch(std::vector<T>& items, std::size_t most,
                                                  const StopToken& stop) {
  const auto attempt = [&] {
    const std::size_t before = items.size();
    // May fail: before anything is taken. Doubles, so that batches may pile up.
    const std::size_t room = std::clamp<std::size_t>(ring_.items(), 1, most);
    if (items.capacity() < before + room) items.reserve(std::max(before + room, 2 * before));
    Pop last = Pop::done;
    while (items.size() < items.capacity() && items.size() - before < most) {
      T item;
      last = ring_.pop(item);
      if (last != Pop::done) break;
      items.push_back(std::move(item));
    }
    if (items.size() == before) return received(last);
    look_for_sleepers();
    return Status::ok;
  };
  return receive_until({}, stop, attempt);
}

template <typename T, template <typename, typename> class Ring, typename Sync>
Status BasicChannel<T, Ring, Sync>::receive_any(std::span<BasicChannel* const> channels, T& item,
                                                std::size_t& index, const StopToken& stop) {
  // A wake-up from one channel that finds an item in another belongs to whoever else sleeps there.
  struct PassOn {
    std::span<BasicChannel* const> channels;
    ~PassOn() {
      for (BasicChannel* channel : channels) channel->look_for_sleepers();
    }
  } const pass_on{channels};

  std::vector<BasicChannel*> open;
  const auto attempt = [&] {
    open.clear();
    const std::size_t last = index;
    for (std::size_t i = 1; i <= channels.size(); ++i) {
      index = (last + i) % channels.size();
      const Status status = channels[index]->attempt_receive(item);
      if (status == Status::ok) return status;
      if (status == Status::would_block) open.push_back(channels[index]);
    }
    index = last;
    return open.empty() ? Status::closed : Status::would_block;
  };
  const auto sleep = [&] {
    typename Sync::Parker parker;
    std::deque<Place> places;
    for (BasicChannel* channel : open) places.emplace_back(*channel, kReceiver, parker);
    if (std::ranges::any_of(open, [](BasicChannel* channel) { return channel->ring_.can_pop(); }))
      return;
    const ThreadWait::Scope scope([&] {
      std::string text = "receive from any of";
      for (const BasicChannel* channel : open) text += fmt::format(" {};", channel->describe());
      return text;
    });
    park(parker, {}, stop);
  };
  return wait({}, stop, attempt, sleep);
}

template <typename T, template <typename, typename> class Ring, typename Sync>
void BasicChannel<T, Ring, Sync>::close() {
  close(nullptr);
}

template <typename T, template <typename, typename> class Ring, typename Sync>
void BasicChannel<T, Ring, Sync>::close(std::exception_ptr error) {
  const Lock lock(mutex_);
  if (!error_) error_ = std::move(error);
  ring_.close();
  for (WaitList<Sync>& sleepers : sleepers_) sleepers.wake([](std::uint64_t) { return true; });
  count_sleepers();
}

template <typename T, template <typename, typename> class Ring, typename Sync>
std::string BasicChannel<T, Ring, Sync>::describe() const {
  std::string text = fmt::format("{}: {}/{} items", name_, items(), limits().items);
  if (limits().bytes != 0)
    text += fmt::format(", {} of {}", format_bytes(bytes()), format_bytes(limits().bytes));
  return text;
}

template <typename T, template <typename, typename> class Ring, typename Sync>
void BasicChannel<T, Ring, Sync>::refuse_size(std::uint64_t bytes) const {
  fail(ErrorCode::bad_input,
       "channel {}: an item of {} can never fit into its bound of {}; raise it", name_,
       format_bytes(bytes), format_bytes(limits().bytes));
}

template <typename T, template <typename, typename> class Ring, typename Sync>
inline Status BasicChannel<T, Ring, Sync>::attempt_send(T& item, std::uint64_t bytes) {
  switch (ring_.push(item, bytes)) {
    case Push::done:
      look_for_sleepers();
      return Status::ok;
    case Push::full:
      return Status::would_block;
    case Push::overtaken:
      look_for_sleepers();
      return Status::would_block;
    case Push::closed:
      break;
  }
  return closed_status();
}

template <typename T, template <typename, typename> class Ring, typename Sync>
inline Status BasicChannel<T, Ring, Sync>::attempt_receive(T& item) {
  const Pop outcome = ring_.pop(item);
  if (outcome == Pop::done) look_for_sleepers();
  return received(outcome);
}

template <typename T, template <typename, typename> class Ring, typename Sync>
Status BasicChannel<T, Ring, Sync>::received(Pop outcome) const {
  if (outcome == Pop::done) return Status::ok;
  return outcome == Pop::empty ? Status::would_block : closed_status();
}

template <typename T, template <typename, typename> class Ring, typename Sync>
Status BasicChannel<T, Ring, Sync>::send_until(const Deadline& deadline, T& item,
                                               std::uint64_t bytes, const StopToken& stop) {
  check_size(bytes);
  const auto sleep = [&] {
    typename Sync::Parker parker;
    const Place place(*this, kSender, parker, bytes);
    if (ring_.can_push(bytes)) return;
    const ThreadWait::Scope scope([&] { return "send to " + describe(); });
    park(parker, deadline, stop);
  };
  return pass_on_where_it_throws([&] {
    return wait(
        deadline, stop, [&] { return attempt_send(item, bytes); }, sleep);
  });
}

template <typename T, template <typename, typename> class Ring, typename Sync>
template <typename Attempt>
Status BasicChannel<T, Ring, Sync>::receive_until(const Deadline& deadline, const StopToken& stop,
                                                  Attempt attempt) {
  const auto sleep = [&] {
    typename Sync::Parker parker;
    const Place place(*this, kReceiver, parker);
    if (ring_.can_pop()) return;
    const ThreadWait::Scope scope([&] { return "receive from " + describe(); });
    park(parker, deadline, stop);
  };
  return pass_on_where_it_throws([&] { return wait(deadline, stop, attempt, sleep); });
}

template <typename T, template <typename, typename> class Ring, typename Sync>
template <typename Wait>
Status BasicChannel<T, Ring, Sync>::pass_on_where_it_throws(Wait wait_for) {
  try {
    return wait_for();
  } catch (...) {
    look_for_sleepers();
    throw;
  }
}

template <typename T, template <typename, typename> class Ring, typename Sync>
template <typename Attempt, typename Sleep>
Status BasicChannel<T, Ring, Sync>::wait(const Deadline& deadline, const StopToken& stop,
                                         Attempt attempt, Sleep sleep) {
  typename Sync::Spinner spinner;
  while (true) {
    const Status status = attempt();
    if (status != Status::would_block) return status;
    if (Sync::passed(deadline)) return Status::timed_out;
    if (stop.stop_requested()) return Status::stopped;
    if (!spinner.spin()) sleep();
  }
}

template <typename T, template <typename, typename> class Ring, typename Sync>
void BasicChannel<T, Ring, Sync>::park(typename Sync::Parker& parker, const Deadline& deadline,
                                       const StopToken& stop) {
  const auto unpark = [&parker] { parker.unpark(); };
  const typename Sync::template StopCallback<decltype(unpark)> on_stop(stop, unpark);
  parker.park(deadline);
}

template <typename T, template <typename, typename> class Ring, typename Sync>
void BasicChannel<T, Ring, Sync>::wake_sleepers() {
  const Lock lock(mutex_);
  const auto all = [](std::uint64_t) { return true; };
  if (ring_.can_pop()) {
    // Who finds a closed channel drained wakes nobody after it.
    if (ring_.closed())
      sleepers_[kReceiver].wake(all);
    else
      sleepers_[kReceiver].wake_one();
  }
  // Items differ in size: all whose item fits may try.
  if (limits().bytes != 0)
    sleepers_[kSender].wake([&](std::uint64_t bytes) { return ring_.can_push(bytes); });
  else if (ring_.can_push(0))
    sleepers_[kSender].wake_one();
  count_sleepers();
}

template <typename T, template <typename, typename> class Ring, typename Sync>
void BasicChannel<T, Ring, Sync>::count_sleepers() {
  const bool any = !sleepers_[kSender].empty() || !sleepers_[kReceiver].empty();
  if (any != sleeping_.load(std::memory_order_relaxed))
    sleeping_.store(any, std::memory_order_relaxed);
}

template <typename T, template <typename, typename> class Ring, typename Sync>
Status BasicChannel<T, Ring, Sync>::closed_status() const {
  const Lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return Status::closed;
}

}  // namespace headrace
