// Definitions of prefetch.h. Layer: flow.
#pragma once

#include <utility>

#include "headrace/prefetch.h"
#include "headrace/thread.h"

namespace headrace {

template <typename Batch>
Prefetch<Batch>::Prefetch(Source source, PrefetchOptions options)
    : source_(std::move(source)),
      options_(std::move(options)),
      tokens_(static_cast<std::ptrdiff_t>(options_.depth)),
      ready_(options_.name, {.items = options_.depth}),
      committed_(options_.start),
      thread_([this](std::stop_token stop) { produce(std::move(stop)); }) {}

template <typename Batch>
Prefetch<Batch>::~Prefetch() {
  thread_.request_stop();
  tokens_.release();
}

template <typename Batch>
void Prefetch<Batch>::produce(std::stop_token stop) {
  std::uint64_t made = 0;
  try {
    name_thread(options_.name);
    lower_priority(options_.nice);
    while (true) {
      tokens_.acquire();
      if (stop.stop_requested()) return;
      Batch batch;
      if (!source_(batch)) break;
      ready_.send(std::move(batch));
      if (++made == options_.depth) primed_.release();
    }
    ready_.close();
  } catch (...) {
    ready_.close(std::current_exception());
  }
  if (made < options_.depth) primed_.release();
}

template <typename Batch>
bool Prefetch<Batch>::prime() {
  if (started_) fail(ErrorCode::internal, "{}: prime() was called twice", options_.name);
  started_ = true;
  primed_.acquire();
  return advance();
}

template <typename Batch>
bool Prefetch<Batch>::next() {
  if (!started_) fail(ErrorCode::internal, "{}: next() was called before prime()", options_.name);
  if (current_) {
    committed_ = current_->position;
    current_.reset();
    tokens_.release();
  }
  return advance();
}

template <typename Batch>
bool Prefetch<Batch>::advance() {
  Batch batch;
  if (ready_.receive(batch) != Status::ok) return false;
  current_ = std::move(batch);
  return true;
}

template <typename Batch>
Batch& Prefetch<Batch>::current() {
  if (!current_) fail(ErrorCode::internal, "{}: there is no current batch", options_.name);
  return *current_;
}

template <typename Batch>
std::uint64_t Prefetch<Batch>::reserve() const {
  return ready_.items();
}

template <typename Batch>
bool Prefetch<Batch>::exhausted() const {
  return ready_.closed() && ready_.items() == 0;
}

}  // namespace headrace
