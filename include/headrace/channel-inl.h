// Definitions of channel.h. Layer: flow.
#pragma once

#include <algorithm>
#include <utility>

#include "headrace/channel.h"
#include "headrace/quantity.h"
#include "headrace/thread.h"

namespace headrace {

template <typename T>
BoundedChannel<T>::BoundedChannel(std::string name, ChannelLimits limits)
    : name_(std::move(name)), limits_(limits) {
  if (limits_.items == 0)
    fail(ErrorCode::bad_input, "channel {}: a bound of 0 items admits nothing; give at least 1",
         name_);
}

template <typename T>
Status BoundedChannel<T>::send(T&& item, std::uint64_t bytes, std::stop_token stop) {
  return send_until(std::nullopt, Status::timed_out, item, bytes, stop);
}

template <typename T>
Status BoundedChannel<T>::try_send(T&& item, std::uint64_t bytes) {
  return send_until(std::chrono::steady_clock::time_point::min(), Status::would_block, item, bytes,
                    {});
}

template <typename T>
Status BoundedChannel<T>::send_for(std::chrono::nanoseconds timeout, T&& item, std::uint64_t bytes,
                                   std::stop_token stop) {
  return send_until(std::chrono::steady_clock::now() + timeout, Status::timed_out, item, bytes,
                    stop);
}

template <typename T>
Status BoundedChannel<T>::receive(T& item, std::stop_token stop) {
  return receive_until(std::nullopt, Status::timed_out, item, stop);
}

template <typename T>
Status BoundedChannel<T>::try_receive(T& item) {
  return receive_until(std::chrono::steady_clock::time_point::min(), Status::would_block, item, {});
}

template <typename T>
Status BoundedChannel<T>::receive_for(std::chrono::nanoseconds timeout, T& item,
                                      std::stop_token stop) {
  return receive_until(std::chrono::steady_clock::now() + timeout, Status::timed_out, item, stop);
}

template <typename T>
Status BoundedChannel<T>::receive_batch(std::vector<T>& items, std::size_t most,
                                        std::stop_token stop) {
  Lock lock(mutex_);
  const Status status = wait(lock, can_receive_, "receive from", std::nullopt, Status::timed_out,
                             stop, [&] { return readable(); });
  if (status != Status::ok) return status;
  if (entries_.empty()) return closed_status();
  const std::size_t count = std::min(most, entries_.size());
  items.reserve(items.size() + count);  // the only step that can fail, before anything is taken
  for (std::size_t i = 0; i < count; ++i) items.push_back(take_front());
  wake_senders(count);
  return Status::ok;
}

template <typename T>
void BoundedChannel<T>::close() {
  const Lock lock(mutex_);
  closed_ = true;
  can_send_.notify_all();
  can_receive_.notify_all();
}

template <typename T>
void BoundedChannel<T>::close(std::exception_ptr error) {
  const Lock lock(mutex_);
  if (!error_) error_ = std::move(error);
  closed_ = true;
  can_send_.notify_all();
  can_receive_.notify_all();
}

template <typename T>
std::uint64_t BoundedChannel<T>::items() const {
  const Lock lock(mutex_);
  return entries_.size();
}

template <typename T>
std::uint64_t BoundedChannel<T>::bytes() const {
  const Lock lock(mutex_);
  return bytes_;
}

template <typename T>
bool BoundedChannel<T>::closed() const {
  const Lock lock(mutex_);
  return closed_;
}

template <typename T>
std::string BoundedChannel<T>::describe() const {
  const Lock lock(mutex_);
  return describe_locked();
}

template <typename T>
std::string BoundedChannel<T>::describe_locked() const {
  std::string text = fmt::format("{}: {}/{} items", name_, entries_.size(), limits_.items);
  if (limits_.bytes != 0)
    text += fmt::format(", {} of {}", format_bytes(bytes_), format_bytes(limits_.bytes));
  return text;
}

template <typename T>
Status BoundedChannel<T>::send_until(Deadline deadline, Status at_deadline, T& item,
                                     std::uint64_t bytes, const std::stop_token& stop) {
  if (limits_.bytes != 0 && bytes > limits_.bytes)
    fail(ErrorCode::bad_input,
         "channel {}: an item of {} can never fit into its bound of {}; raise it", name_,
         format_bytes(bytes), format_bytes(limits_.bytes));
  Lock lock(mutex_);
  const Status status = wait(lock, can_send_, "send to", deadline, at_deadline, stop,
                             [&] { return closed_ || fits(bytes); });
  if (status != Status::ok) return status;
  if (closed_) return closed_status();
  entries_.push_back({std::move(item), bytes});
  bytes_ += bytes;
  can_receive_.notify_one();
  return Status::ok;
}

template <typename T>
Status BoundedChannel<T>::receive_until(Deadline deadline, Status at_deadline, T& item,
                                        const std::stop_token& stop) {
  Lock lock(mutex_);
  const Status status = wait(lock, can_receive_, "receive from", deadline, at_deadline, stop,
                             [&] { return readable(); });
  if (status != Status::ok) return status;
  if (entries_.empty()) return closed_status();
  item = take_front();
  wake_senders(1);
  return Status::ok;
}

template <typename T>
template <typename Ready>
Status BoundedChannel<T>::wait(Lock& lock, std::condition_variable_any& condition, const char* verb,
                               Deadline deadline, Status at_deadline, const std::stop_token& stop,
                               Ready ready) {
  if (ready()) return Status::ok;
  if (deadline && *deadline <= std::chrono::steady_clock::now()) return at_deadline;
  const ThreadWait::Scope scope([&] { return fmt::format("{} {}", verb, describe_locked()); });
  if (deadline ? condition.wait_until(lock, stop, *deadline, ready)
               : condition.wait(lock, stop, ready))
    return Status::ok;
  return stop.stop_requested() ? Status::stopped : at_deadline;
}

template <typename T>
bool BoundedChannel<T>::fits(std::uint64_t bytes) const {
  return entries_.size() < limits_.items && (limits_.bytes == 0 || bytes <= limits_.bytes - bytes_);
}

template <typename T>
T BoundedChannel<T>::take_front() {
  T item = std::move(entries_.front().item);
  bytes_ -= entries_.front().bytes;
  entries_.pop_front();
  return item;
}

// Waiting senders hold items of different sizes, so where bytes are bounded the one that notify_one
// picks may be the one that does not fit.
template <typename T>
void BoundedChannel<T>::wake_senders(std::size_t freed) {
  if (freed == 1 && limits_.bytes == 0) {
    can_send_.notify_one();
  } else {
    can_send_.notify_all();
  }
}

template <typename T>
Status BoundedChannel<T>::closed_status() const {
  if (error_) std::rethrow_exception(error_);
  return Status::closed;
}

}  // namespace headrace
