// A double buffer as textbooks write it, with one of their bugs or with none; no threads. It claims
// a batch for each worker, makes these from the last to the first, and puts them in order.
#pragma once

#include <algorithm>
#include <deque>

#include "flow/prefetch_harness.h"

namespace headrace::testing {

enum class Bug {
  none,
  reserve_not_cleared,      // at the end the last batch stays in the reserve
  offsets_of_the_producer,  // of what was fetched, not of what was used
  offsets_at_fetch,         // of current, as soon as it is current
  tail_dropped,             // what is in the reserve when the source ends is not served
  error_at_once,            // the error is thrown when it is seen, before the good batches
  as_they_finish,           // several workers' batches are not put in order
};

template <Bug bug>
class Textbook {
 public:
  Textbook(Source<Number> source, PrefetchOptions options)
      : source_(std::move(source)),
        options_(std::move(options)),
        committed_(options_.start),
        claimed_(options_.start) {}

  bool prime() { return advance(); }
  bool next() {
    if (has_current_) committed_ = current_.position;
    return advance();
  }
  Number& current() { return current_; }
  bool exhausted() const { return ended_ && !error_ && reserve_.empty(); }
  Position offsets_to_commit() const {
    if (bug == Bug::offsets_of_the_producer) return claimed_;
    return bug == Bug::offsets_at_fetch && has_current_ ? current_.position : committed_;
  }

 private:
  void fetch() {
    std::vector<Number> round;
    std::size_t good = SIZE_MAX;
    for (std::uint64_t i = 0; i < std::max<std::uint64_t>(1, options_.workers) && !ended_; ++i) {
      Number number;
      ended_ = !source_.claim(number, {});
      if (ended_) break;
      round.push_back(number);
      claimed_ = position_after(number.value + 1);
    }
    for (std::size_t i = round.size(); i-- > 0;) {
      try {
        source_.make(round[i], {});
      } catch (...) {
        error_ = std::current_exception();
        ended_ = true;
        good = i;
      }
    }
    if (good < round.size()) round.resize(good);
    if (bug == Bug::as_they_finish) std::ranges::reverse(round);
    reserve_.insert(reserve_.end(), round.begin(), round.end());
  }
  // What is served stays in the reserve until the batch that takes its place is there.
  bool advance() {
    while (!ended_ && reserve_.size() <= options_.depth) fetch();
    if (bug == Bug::tail_dropped && ended_) reserve_.clear();
    has_current_ = !reserve_.empty();
    if (error_ && (bug == Bug::error_at_once || !has_current_)) std::rethrow_exception(error_);
    if (!has_current_) return false;
    current_ = reserve_.front();
    const bool stays = bug == Bug::reserve_not_cleared && ended_ && reserve_.size() == 1;
    if (!stays) reserve_.pop_front();
    return true;
  }

  Source<Number> source_;
  PrefetchOptions options_;
  std::deque<Number> reserve_;
  Number current_;
  bool has_current_ = false, ended_ = false;
  std::exception_ptr error_;
  Position committed_, claimed_;
};

}  // namespace headrace::testing
