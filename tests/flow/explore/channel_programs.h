// Programs over a channel for the explorer. Each checks that what was sent is received once, in the
// order of its sender, or is still inside; that nothing else is; and, by ending, that nobody sleeps
// who could go on.
#pragma once

#include <string>
#include <vector>

#include "flow/explore/pipe.h"

namespace headrace::explore {

// `senders` threads send `each` items; the receivers share them.
template <template <typename, typename> class Ring>
Program transfer(int senders, int each, std::vector<int> receivers, ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    for (int s = 1; s <= senders; ++s)
      model.thread("sender" + std::to_string(s), [&, s] { pipe.send(s, each); });
    for (int r = 0; r < static_cast<int>(receivers.size()); ++r)
      model.thread("receiver" + std::to_string(r + 1), [&, r] { pipe.receive(r, receivers[r]); });
    model.run();
    pipe.settle();
    model.require(pipe.inside() == 0, "a receive returned without its item");
  };
}

// Out of a full channel comes one item: one sender gets in, though items remain.
template <template <typename, typename> class Ring>
Program room_for_one(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    const int capacity = static_cast<int>(limits.items);
    pipe.send(2, capacity);
    model.thread("sender", [&] { pipe.send(1, 1); });
    model.thread("receiver", [&] { pipe.receive(0, 1); });
    model.run();
    pipe.settle();
    model.require(pipe.inside() == capacity, "the channel is not full");
  };
}

// Somebody closes while one sends `count` items and another receives until the end.
template <template <typename, typename> class Ring>
Program close_while_busy(int count, bool with_error, ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    const auto error = std::make_exception_ptr(Error(ErrorCode::io, "disk gone"));
    const auto ends = [&](auto operation) {
      try {
        const Status status = operation();
        model.require(status == Status::closed || status == Status::ok, "neither ok nor closed");
        return status == Status::closed;
      } catch (const Error&) {
        model.require(with_error, "an error from nowhere");
        return true;
      }
    };
    bool drained = false;
    model.thread("closer", [&] { with_error ? pipe.channel.close(error) : pipe.channel.close(); });
    model.thread("sender", [&] { ends([&] { return pipe.send(1, count); }); });
    model.thread("receiver", [&] { drained = ends([&] { return pipe.receive(0, count + 1); }); });
    model.run();
    pipe.settle();
    model.require(drained, "the receiver did not hear of the end");
    model.require(pipe.inside() == 0, "the receiver left an item behind");
  };
}

// Two senders against a full channel and two receivers against an empty one all hear of a close.
template <template <typename, typename> class Ring>
Program close_wakes_all(bool senders, ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    if (senders) pipe.send(3, static_cast<int>(limits.items));
    for (int t = 1; t <= 2; ++t)
      model.thread("waiter" + std::to_string(t), [&, t] {
        const Status status = senders ? pipe.send(t, 1) : pipe.receive(t, 1);
        model.require(status == Status::closed, "woken for nothing");
      });
    model.thread("closer", [&] { pipe.channel.close(); });
    model.run();
    pipe.settle();
  };
}

// Two receivers share what a sender got in before a close, and both hear of the end.
template <template <typename, typename> class Ring>
Program close_ends_two_receivers(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    for (int r = 1; r <= 2; ++r)
      model.thread("receiver" + std::to_string(r), [&, r] {
        model.require(pipe.receive(r, 2) == Status::closed, "the receiver did not hear of the end");
      });
    model.thread("sender", [&] { pipe.send(1, 1); });
    model.thread("closer", [&] { pipe.channel.close(); });
    model.run();
    pipe.settle();
    model.require(pipe.inside() == 0, "the receivers left an item behind");
  };
}

// A stop races with the hand-over of an item.
template <template <typename, typename> class Ring>
Program stop_receiver(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    ModelSync::StopSource stop;
    Status status = Status::closed;
    model.thread("stopper", [&] { stop.request_stop(); });
    model.thread("sender", [&] { pipe.send(1, 1); });
    model.thread("receiver", [&] { status = pipe.receive(0, 1, stop.get_token()); });
    model.run();
    pipe.settle();
    model.require(
        status == Status::ok ? pipe.inside() == 0 : status == Status::stopped && pipe.inside() == 1,
        "a stopped receive took an item");
  };
}

template <template <typename, typename> class Ring>
Program stop_sender(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    ModelSync::StopSource stop;
    pipe.send(2, static_cast<int>(limits.items));
    model.thread("stopper", [&] { stop.request_stop(); });
    model.thread("sender", [&] { pipe.send(1, 1, 0, stop.get_token()); });
    model.thread("receiver", [&] { pipe.receive(0, 1); });
    model.run();
    pipe.settle();
  };
}

// Nobody but the stop ever frees the sender.
template <template <typename, typename> class Ring>
Program stop_sender_for_good(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    ModelSync::StopSource stop;
    pipe.send(2, static_cast<int>(limits.items));
    model.thread("stopper", [&] { stop.request_stop(); });
    model.thread("sender", [&] {
      model.require(pipe.send(1, 1, 0, stop.get_token()) == Status::stopped, "not stopped");
    });
    model.run();
    pipe.settle();
  };
}

// One of two sleeping receivers is stopped while an item arrives: the other must not miss it.
template <template <typename, typename> class Ring>
Program stop_one_of_two(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    ModelSync::StopSource stop;
    model.thread("stopped", [&] {
      if (pipe.receive(0, 1, stop.get_token()) == Status::ok) pipe.send(2, 1);
    });
    model.thread("receiver", [&] { pipe.receive(1, 1); });
    model.thread("sender", [&] {
      stop.request_stop();
      pipe.send(1, 1);
    });
    model.run();
    pipe.settle();
    model.require(pipe.inside() == 0, "the receiver did not get its item");
  };
}

// Deadlines that may pass at any moment, on both sides.
template <template <typename, typename> class Ring>
Program deadlines(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    model.thread("sender", [&] { pipe.send_for(1, 2); });
    model.thread("receiver", [&] { pipe.receive_for(0, 2); });
    model.run();
    pipe.settle();
  };
}

// Two senders with items of different sizes; what is inside never exceeds the bound.
template <template <typename, typename> class Ring>
Program byte_bound(std::uint64_t first, std::uint64_t second, ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    const bool one = std::is_same_v<Ring<Item, ModelSync>, SpscRing<Item, ModelSync>>;
    model.thread("sender1", [&] {
      pipe.send(1, 1, first);
      if (one) pipe.send(2, 1, second);
    });
    if (!one) model.thread("sender2", [&] { pipe.send(2, 1, second); });
    model.thread("receiver", [&] {
      for (int i = 0; i < 2; ++i) {
        pipe.receive(0, 1);
        model.require(pipe.channel.bytes() <= limits.bytes, "more bytes than the bound");
      }
    });
    model.run();
    pipe.settle();
  };
}

// Of two senders one has an item that fits once another is out, wherever it stands in the queue.
template <template <typename, typename> class Ring>
Program the_smaller_fits() {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, {3, 4});
    pipe.send(1, 2, 2);
    model.thread("large", [&] {
      model.require(pipe.send_for(2, 1, 3) == Status::timed_out, "3 of 4 bytes beside 2 of them");
    });
    model.thread("small", [&] { pipe.send(3, 1, 2); });
    model.thread("receiver", [&] { pipe.receive(0, 1); });
    model.run();
    pipe.settle();
  };
}

// A sender that gives up may have held the bytes that another one waits for.
template <template <typename, typename> class Ring>
Program bytes_held_for_a_moment(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    model.thread("trier", [&] { pipe.try_send(1, limits.bytes - 1); });
    model.thread("small", [&] { pipe.send(2, 1, 1); });
    model.thread("medium", [&] { pipe.send(3, 1, 2); });
    model.thread("receiver", [&] { pipe.receive(0, 2); });
    model.run();
    pipe.settle();
  };
}

template <template <typename, typename> class Ring>
Program batches(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> pipe(model, limits);
    model.thread("sender", [&] {
      pipe.send(1, 3);
      pipe.channel.close();
    });
    model.thread("receiver", [&] {
      while (pipe.receive_batch(0, 2) == Status::ok) {
      }
    });
    model.run();
    pipe.settle();
    model.require(pipe.inside() == 0, "the receiver left an item behind");
  };
}

// One receives from two channels until both are closed.
template <template <typename, typename> class Ring>
Program any_of_two(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> first(model, limits), second(model, limits);
    for (Pipe<Ring>* pipe : {&first, &second})
      model.thread(pipe == &first ? "sender1" : "sender2", [pipe] {
        pipe->send(1, 1);
        pipe->channel.close();
      });
    model.thread("any", [&] {
      while (receive_any(first, second) == Status::ok) {
      }
    });
    model.run();
    first.settle();
    second.settle();
    model.require(first.inside() + second.inside() == 0, "an item was left behind");
  };
}

// Two items in one channel, one in another, and one receiver of both beside one of the first alone:
// a wake-up for an item of the first may reach the one who has found the item of the second.
template <template <typename, typename> class Ring>
Program any_of_two_and_a_rival(ChannelLimits limits) {
  return [=](Model& model) {
    Pipe<Ring> first(model, limits), second(model, limits);
    model.thread("sender1", [&] { first.send(1, 2); });
    model.thread("sender2", [&] { second.send(2, 1); });
    model.thread("any", [&] { receive_any(first, second); });
    model.thread("rival", [&] { first.receive(1, 1); });
    model.run();
    first.settle();
    second.settle();
    model.require(first.inside() + second.inside() == 1, "both receivers take one item");
  };
}

}  // namespace headrace::explore
