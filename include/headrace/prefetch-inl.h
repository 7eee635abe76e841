// Definitions of prefetch.h. Layer: flow.
#pragma once

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "headrace/prefetch.h"
#include "headrace/thread.h"

namespace headrace {

template <Positioned Batch>
Prefetch<Batch>::Prefetch(Source<Batch> source, PrefetchOptions options)
    : source_(std::move(source)),
      options_(std::move(options)),
      permits_(options_.name + " permits", {.items = options_.depth}),
      ready_(options_.name, {.items = options_.depth}),
      committed_(options_.start) {
  for (std::uint64_t i = 0; i < options_.depth; ++i) permits_.send({});
  const std::uint64_t workers = std::min(options_.workers, options_.depth);
  try {
    while (threads_.size() < workers) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop_.request_stop();
    fail(ErrorCode::resource, "{}: thread {} of {} cannot be started: {}", options_.name,
         threads_.size() + 1, workers, error.what());
  } catch (...) {  // no memory for a thread: those that run wait for this
    stop_.request_stop();
    throw;
  }
}

template <Positioned Batch>
Prefetch<Batch>::~Prefetch() {
  stop_.request_stop();
}

template <Positioned Batch>
void Prefetch<Batch>::work() {
  name_thread(options_.name);
  lower_priority(options_.nice);
  while (step()) {
  }
}

// Claims, makes and delivers one batch. Returns whether there may be another.
template <Positioned Batch>
bool Prefetch<Batch>::step() {
  const std::stop_token stop = stop_.get_token();
  std::monostate permit;
  if (permits_.receive(permit, stop) != Status::ok) return false;
  std::unique_lock claiming(claims_);
  if (over_ || stop.stop_requested()) return false;
  const std::uint64_t sequence = claimed_;
  std::exception_ptr error;
  try {
    auto item = std::make_unique<Item>();
    item->sequence = sequence;
    if (source_.claim(item->batch, stop)) {
      ++claimed_;
      claiming.unlock();
      if (source_.make) source_.make(item->batch, stop);
      item->position = item->batch.position;
      arrive(std::move(item));
      return true;
    }
  } catch (...) {
    error = std::current_exception();
  }
  over_ = true;
  end(sequence, std::move(error));
  return false;
}

template <Positioned Batch>
void Prefetch<Batch>::arrive(std::unique_ptr<Item> item) {
  const std::lock_guard lock(arrivals_);
  if (item->sequence >= end_) return;  // behind an error
  std::unique_ptr<Item>& place = arrived_[item->sequence];
  if (options_.order == Order::ready)
    ready_.send(std::move(item));
  else
    place = std::move(item);
  pass_on();
}

template <Positioned Batch>
void Prefetch<Batch>::end(std::uint64_t sequence, std::exception_ptr error) {
  const std::lock_guard lock(arrivals_);
  if (sequence >= end_) return;
  end_ = sequence;
  error_ = std::move(error);
  pass_on();
}

// Passes on what is next in order, and the end behind the last batch. arrivals_ is held.
template <Positioned Batch>
void Prefetch<Batch>::pass_on() {
  for (; passed_ < end_ && arrived_.contains(passed_); ++passed_) {
    const auto next = arrived_.begin();
    if (next->second) ready_.send(std::move(next->second));
    arrived_.erase(next);
  }
  if (passed_ == end_) ready_.close();
}

template <Positioned Batch>
bool Prefetch<Batch>::prime(const std::stop_token& stop) {
  if (primed_) fail(ErrorCode::internal, "{}: prime() was called twice", options_.name);
  primed_ = true;
  return advance(stop);
}

template <Positioned Batch>
bool Prefetch<Batch>::next(const std::stop_token& stop) {
  if (!primed_) fail(ErrorCode::internal, "{}: next() was called before prime()", options_.name);
  if (current_) {
    completed_.emplace(current_->sequence, std::move(current_->position));
    current_.reset();
  }
  for (auto done = completed_.begin(); done != completed_.end() && done->first == committable_;
       done = completed_.erase(done), ++committable_) {
    committed_ = std::move(done->second);
    permits_.send({});
  }
  return advance(stop);
}

template <Positioned Batch>
bool Prefetch<Batch>::advance(const std::stop_token& stop) {
  if (!fill_reserve(stop) && error_) std::rethrow_exception(error_);  // written before the close
  current_ = std::move(reserve_);
  return current_ != nullptr;
}

// Waits for the batch that follows; false: there is none.
template <Positioned Batch>
bool Prefetch<Batch>::fill_reserve(const std::stop_token& stop) {
  if (reserve_) return true;
  if (options_.workers == 0 && !ready_.closed()) {
    if (stop.stop_requested()) stopped();
    step();
  }
  // Whoever waits here waits for a source that works, not for another stage: the wait begins anew
  // before a watchdog could take it for a deadlock.
  Status status = Status::timed_out;
  while (status == Status::timed_out)
    status = ready_.receive_for(std::chrono::milliseconds(100), reserve_, stop);
  if (status == Status::stopped) stopped();
  return reserve_ != nullptr;
}

template <Positioned Batch>
void Prefetch<Batch>::stopped() const {
  fail(ErrorCode::cancelled, "{}: stopped while waiting for a batch", options_.name);
}

template <Positioned Batch>
Batch& Prefetch<Batch>::current() {
  if (!current_) fail(ErrorCode::internal, "{}: there is no current batch", options_.name);
  return current_->batch;
}

template <Positioned Batch>
Batch* Prefetch<Batch>::reserve(const std::stop_token& stop) {
  if (!current_ || options_.depth == 1 || !fill_reserve(stop)) return nullptr;
  return &reserve_->batch;
}

template <Positioned Batch>
bool Prefetch<Batch>::exhausted() const {
  const std::lock_guard lock(arrivals_);
  return passed_ == end_ && !error_ && !reserve_ && ready_.items() == 0;
}

template <Positioned Batch>
std::uint64_t Prefetch<Batch>::ready() const {
  return ready_.items() + (reserve_ ? 1 : 0);
}

}  // namespace headrace
