// Queues between two threads under one interface, each for items of type T and a capacity of N.
//
//   try_push(T&), try_pop(T&)  whether it worked; neither waits
//   push(T&), pop(T&)          wait, asleep in the end; only where the library can
//
// atomic_queue's capacity and one of Boost's are fixed when compiling, so N is a template parameter
// for all. moodycamel's reader-writer queue holds 2^k - 1 items: asked for N it holds 2N - 1, so the
// rival is asked for N - 1, and the larger one stands beside it for reference.
#pragma once

#include <atomic_queue/atomic_queue.h>
#include <concurrentqueue/concurrentqueue.h>
#include <concurrentqueue/lightweightsemaphore.h>
#include <oneapi/tbb/concurrent_queue.h>
#include <readerwriterqueue/readerwritercircularbuffer.h>
#include <readerwriterqueue/readerwriterqueue.h>

#include <array>
#include <boost/lockfree/spsc_queue.hpp>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <type_traits>
#include <utility>

#include "headrace/channel.h"

namespace headrace::bench {

template <typename Channel, std::size_t N>
class HeadraceQueue {
 public:
  template <typename T>
  bool try_push(T& item) {
    return channel_.try_send(std::move(item)) == Status::ok;
  }
  template <typename T>
  bool try_pop(T& item) {
    return channel_.try_receive(item) == Status::ok;
  }
  template <typename T>
  void push(T& item) {
    channel_.send(std::move(item));
  }
  template <typename T>
  void pop(T& item) {
    channel_.receive(item);
  }

 private:
  Channel channel_{"bench", {.items = N}};
};

template <typename T, std::size_t N>
struct HeadraceSpsc : HeadraceQueue<SpscChannel<T>, N> {
  static constexpr const char* name = "Headrace SpscChannel";
};

template <typename T, std::size_t N>
struct HeadraceBounded : HeadraceQueue<BoundedChannel<T>, N> {
  static constexpr const char* name = "Headrace BoundedChannel";
};

template <typename T, std::size_t N>
class BoostFixed {
 public:
  static constexpr const char* name = "boost spsc_queue, capacity fixed";
  bool try_push(T& item) { return queue_.push(item); }
  bool try_pop(T& item) { return queue_.pop(item); }

 private:
  boost::lockfree::spsc_queue<T, boost::lockfree::capacity<N>> queue_;
};

template <typename T, std::size_t N>
class BoostDynamic {
 public:
  static constexpr const char* name = "boost spsc_queue, capacity at run time";
  bool try_push(T& item) { return queue_.push(item); }
  bool try_pop(T& item) { return queue_.pop(item); }

 private:
  boost::lockfree::spsc_queue<T> queue_{N};
};

template <typename T, std::size_t N>
class MoodycamelReaderWriter {
 public:
  static constexpr const char* name = "moodycamel ReaderWriterQueue, holds N - 1";
  bool try_push(T& item) { return queue_.try_enqueue(std::move(item)); }
  bool try_pop(T& item) { return queue_.try_dequeue(item); }

 private:
  moodycamel::ReaderWriterQueue<T> queue_{N - 1};
};

template <typename T, std::size_t N>
class MoodycamelReaderWriterLarger {
 public:
  static constexpr const char* name = "moodycamel ReaderWriterQueue, holds 2N - 1";
  bool try_push(T& item) { return queue_.try_enqueue(std::move(item)); }
  bool try_pop(T& item) { return queue_.try_dequeue(item); }

 private:
  moodycamel::ReaderWriterQueue<T> queue_{N};
};

// Its consumer can sleep, its producer cannot.
template <typename T, std::size_t N>
class MoodycamelBlockingReaderWriter {
 public:
  static constexpr const char* name =
      "moodycamel BlockingReaderWriterQueue, holds N - 1 (only pop sleeps)";
  void push(T& item) {
    while (!queue_.try_enqueue(std::move(item))) {
    }
  }
  void pop(T& item) { queue_.wait_dequeue(item); }

 private:
  moodycamel::BlockingReaderWriterQueue<T> queue_{N - 1};  // holds as many
};

template <typename T, std::size_t N>
class MoodycamelCircular {
 public:
  static constexpr const char* name = "moodycamel BlockingReaderWriterCircularBuffer";
  bool try_push(T& item) { return queue_.try_enqueue(std::move(item)); }
  bool try_pop(T& item) { return queue_.try_dequeue(item); }
  void push(T& item) { queue_.wait_enqueue(std::move(item)); }
  void pop(T& item) { queue_.wait_dequeue(item); }

 private:
  moodycamel::BlockingReaderWriterCircularBuffer<T> queue_{N};
};

// Its queue for many threads has no bound; a semaphore of free places gives it one.
template <typename T, std::size_t N>
class MoodycamelConcurrent {
 public:
  static constexpr const char* name = "moodycamel ConcurrentQueue and two semaphores";
  void push(T& item) {
    while (!free_.wait()) {
    }
    queue_.enqueue(std::move(item));
    filled_.signal();
  }
  void pop(T& item) {
    while (!filled_.wait()) {
    }
    while (!queue_.try_dequeue(item)) {  // filled, but perhaps not yet visible in every sub-queue
    }
    free_.signal();
  }

 private:
  moodycamel::ConcurrentQueue<T> queue_{N};
  moodycamel::LightweightSemaphore free_{N}, filled_{0};
};

// Of its two forms the one for atomic elements, where T can be one; 0 then means empty, so items
// must not be 0.
template <typename T, std::size_t N, bool one_to_one>
auto make_atomic_queue() {
  if constexpr (std::is_integral_v<T>)
    return std::type_identity<
        atomic_queue::AtomicQueue<T, N, T{}, true, true, false, one_to_one>>{};
  else
    return std::type_identity<atomic_queue::AtomicQueue2<T, N, true, true, false, one_to_one>>{};
}
template <typename T, std::size_t N, bool one_to_one>
using AtomicQueueOf = typename decltype(make_atomic_queue<T, N, one_to_one>())::type;

template <typename T, std::size_t N>
class AtomicQueueTry {
 public:
  static constexpr const char* name = "atomic_queue, try";
  bool try_push(T& item) { return queue_.try_push(item); }
  bool try_pop(T& item) { return queue_.try_pop(item); }

 private:
  AtomicQueueOf<T, N, true> queue_;
};

// push() and pop() take their place first and then spin for as long as it takes.
template <typename T, std::size_t N>
class AtomicQueueUncancellable {
 public:
  static constexpr const char* name = "atomic_queue, push and pop (cannot be given up or closed)";
  bool try_push(T& item) {
    queue_.push(item);
    return true;
  }
  bool try_pop(T& item) {
    item = queue_.pop();
    return true;
  }

 private:
  AtomicQueueOf<T, N, true> queue_;
};

template <typename T, std::size_t N>
class OneTbb {
 public:
  static constexpr const char* name = "oneTBB concurrent_bounded_queue";
  OneTbb() { queue_.set_capacity(N); }
  bool try_push(T& item) { return queue_.try_push(std::move(item)); }
  bool try_pop(T& item) { return queue_.try_pop(item); }
  void push(T& item) { queue_.push(std::move(item)); }
  void pop(T& item) { queue_.pop(item); }

 private:
  tbb::concurrent_bounded_queue<T> queue_;
};

template <typename T, std::size_t N>
class MutexQueue {
 public:
  static constexpr const char* name = "mutex and two condition variables";
  bool try_push(T& item) {
    {
      const std::lock_guard lock(mutex_);
      if (items_.size() == N) return false;
      items_.push_back(std::move(item));
    }
    filled_.notify_one();
    return true;
  }
  bool try_pop(T& item) {
    {
      const std::lock_guard lock(mutex_);
      if (items_.empty()) return false;
      take(item);
    }
    freed_.notify_one();
    return true;
  }
  void push(T& item) {
    {
      std::unique_lock lock(mutex_);
      freed_.wait(lock, [&] { return items_.size() < N; });
      items_.push_back(std::move(item));
    }
    filled_.notify_one();
  }
  void pop(T& item) {
    {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [&] { return !items_.empty(); });
      take(item);
    }
    freed_.notify_one();
  }

 private:
  void take(T& item) {
    item = std::move(items_.front());
    items_.pop_front();
  }

  std::mutex mutex_;
  std::condition_variable filled_, freed_;
  std::deque<T> items_;
};

}  // namespace headrace::bench
