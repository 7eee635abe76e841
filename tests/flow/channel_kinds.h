// The two kinds of channel, for tests that hold for both.
#pragma once

#include <gtest/gtest.h>

#include "headrace/channel.h"

namespace headrace::testing_channels {

struct Many {
  template <typename T>
  using Of = BoundedChannel<T>;
  static constexpr int kThreads = 3;  // at each side in stress tests
};
struct One {
  template <typename T>
  using Of = SpscChannel<T>;
  static constexpr int kThreads = 1;
};
template <typename Kind>
class ChannelTest : public testing::Test {
 public:
  template <typename T>
  using Of = typename Kind::template Of<T>;
};
using Kinds = testing::Types<Many, One>;

}  // namespace headrace::testing_channels
