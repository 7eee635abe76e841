// What explored programs send: a value whose moves are steps, so that two threads that move one item
// at a time, a moved-from item that arrives, and one that is never destroyed are seen.
#pragma once

#include <utility>

#include "flow/explore/model.h"

namespace headrace::explore {

class Item {
 public:
  Item() = default;
  explicit Item(int value) : value_(value) {}
  Item(Item&& other) noexcept : value_(other.take()) {}
  Item& operator=(Item&& other) noexcept {
    value_ = other.take();
    return *this;
  }

  int value() const { return value_; }  // 0: none

 private:
  int take() {
    Model& model = *Model::current();
    model.require(!moving_, "two threads move the same item");
    moving_ = true;
    model.touch("moves item", object_, Where::current());
    moving_ = false;
    return std::exchange(value_, 0);
  }

  Object object_;
  int value_ = 0;
  bool moving_ = false;
};

}  // namespace headrace::explore
