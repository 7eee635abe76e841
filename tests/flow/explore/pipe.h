// A channel between explored threads that keeps account of what enters and what comes out.
#pragma once

#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "flow/explore/explore.h"
#include "flow/explore/item.h"
#include "headrace/channel.h"

namespace headrace::explore {

inline constexpr auto kHour = std::chrono::hours(1);

// The values of a sender's items are sender * 100 + 1, 2, 3, ...
template <template <typename, typename> class Ring>
class Pipe {
 public:
  using Channel = BasicChannel<Item, Ring, ModelSync>;
  using StopToken = ModelSync::StopToken;

  Pipe(Model& model, ChannelLimits limits) : channel("c", limits), model_(model) {}

  // Sends `count` items, up to the first that does not enter.
  Status send(int sender, int count, std::uint64_t bytes = 0, StopToken stop = {}) {
    return send_each(sender, count,
                     [&](Item& item) { return channel.send(std::move(item), bytes, stop); });
  }
  Status try_send(int sender, std::uint64_t bytes) {
    return send_each(sender, 1,
                     [&](Item& item) { return channel.try_send(std::move(item), bytes); });
  }
  Status send_for(int sender, int count, std::uint64_t bytes = 0) {
    return send_each(sender, count,
                     [&](Item& item) { return channel.send_for(kHour, std::move(item), bytes); });
  }
  // Receives `count` items, up to the first time that none comes.
  Status receive(int receiver, int count, StopToken stop = {}) {
    return receive_each(receiver, count, [&](Item& item) { return channel.receive(item, stop); });
  }
  Status receive_for(int receiver, int count) {
    return receive_each(receiver, count,
                        [&](Item& item) { return channel.receive_for(kHour, item); });
  }
  Status receive_batch(int receiver, std::size_t most) {
    std::vector<Item> items;
    const Status status = channel.receive_batch(items, most);
    model_.require(items.empty() == (status != Status::ok), "a batch and its status disagree");
    model_.require(items.size() <= most, "a batch is too large");
    for (const Item& item : items) got(receiver, item.value());
    return status;
  }
  void got(int receiver, int value) {
    const int sender = value / 100;
    int& last = last_[receiver][sender];
    model_.require(value % 100 > last, "an item came twice, out of order or from nowhere");
    last = value % 100;
    ++received_[sender];
  }

  // After the run: takes what is inside, then compares.
  void settle() {
    for (Item item; take_inside(item);) got(kDrain, item.value());
    for (const auto& [sender, count] : sent_)
      model_.require(received_[sender] == count, "an item that was sent is lost");
    for (const auto& [sender, count] : received_)
      model_.require(sent_[sender] == count, "an item came that was not sent");
    model_.require(channel.items() == 0, "items are counted that are not there");
    model_.require(channel.bytes() == 0, "bytes are counted that are not there");
  }

  int inside() const { return inside_; }
  Channel channel;

 private:
  static constexpr int kDrain = 9;

  template <typename Send>
  Status send_each(int sender, int count, Send send) {
    for (int i = 1; i <= count; ++i) {
      Item item(sender * 100 + i);
      const Status status = send(item);
      model_.require((item.value() == 0) == (status == Status::ok),
                     "an item is neither sent nor with its owner, or both");
      if (status != Status::ok) return status;
      ++sent_[sender];
    }
    return Status::ok;
  }
  template <typename Receive>
  Status receive_each(int receiver, int count, Receive receive) {
    for (int i = 0; i < count; ++i) {
      Item item;
      const Status status = receive(item);
      model_.require((item.value() != 0) == (status == Status::ok),
                     "an item and the status of its receive disagree");
      if (status != Status::ok) return status;
      got(receiver, item.value());
    }
    return Status::ok;
  }
  // try_receive, of a channel that an error may have closed.
  bool take_inside(Item& item) {
    try {
      if (channel.try_receive(item) != Status::ok) return false;
    } catch (const Error&) {
      return false;
    }
    ++inside_;
    return true;
  }

  Model& model_;
  std::map<int, int> sent_, received_;      // by sender
  std::map<int, std::map<int, int>> last_;  // by receiver and sender
  int inside_ = 0;
};

template <template <typename, typename> class Ring>
Status receive_any(Pipe<Ring>& first, Pipe<Ring>& second) {
  using Channel = typename Pipe<Ring>::Channel;
  Channel* const channels[] = {&first.channel, &second.channel};
  Item item;
  std::size_t index = 0;
  const Status status = Channel::receive_any(channels, item, index);
  if (status == Status::ok) (index == 0 ? first : second).got(0, item.value());
  return status;
}

}  // namespace headrace::explore
