// Two senders and two receivers that sleep where they have to wait: items of 8 bytes, capacities of
// 4, 64 and 1024. usage: bench_channel_mpmc [--help]
//
// Two placements on two cores: senders on one and receivers on the other, or all four on both.
#include <fmt/format.h>

#include <type_traits>

#include "competitors.h"
#include "transfer.h"

namespace headrace::bench {
namespace {

constexpr std::uint64_t pairs = 2;

// Each sender sends the values from 1 on; what arrived is checked by its sum.
template <typename Queue>
Usage run_pairs(const Options& options, bool split, std::uint64_t items) {
  const auto queue = std::make_unique<Queue>();
  const std::uint64_t each = items / pairs;
  std::uint64_t sums[pairs] = {};
  std::vector<Body> bodies;
  for (std::uint64_t pair = 0; pair < pairs; ++pair) {
    const auto send = [&] {
      for (std::uint64_t value = 1; value <= each; ++value) {
        std::uint64_t item = value;
        queue->push(item);
      }
    };
    const auto receive = [&, pair] {
      std::uint64_t sum = 0, item = 0;
      for (std::uint64_t i = 0; i < each; ++i) {
        queue->pop(item);
        sum += item;
      }
      sums[pair] = sum;
    };
    bodies.push_back({split ? std::vector{options.cores[0]} : options.cores, send});
    bodies.push_back({split ? std::vector{options.cores[1]} : options.cores, receive});
  }
  const Usage usage = run_together(bodies);
  const std::uint64_t sum = sums[0] + sums[1];
  if (sum != pairs * each * (each + 1) / 2)
    fail(ErrorCode::internal, "{}: items were lost, damaged or doubled", Queue::name);
  return usage;
}

template <std::size_t N>
Column column(const Options& options, bool split) {
  const auto entrant = [&]<typename Queue>(std::type_identity<Queue>, Role role) -> Entrant {
    return {Queue::name, role, {{"", [&options, split](std::uint64_t items) {
                                   return run_pairs<Queue>(options, split, items);
                                 }}}};
  };
  using T = std::uint64_t;
  return {fmt::format("{}, capacity {}", split ? "split" : "shared", N),
          {entrant(std::type_identity<HeadraceBounded<T, N>>{}, Role::ours),
           entrant(std::type_identity<OneTbb<T, N>>{}, Role::rival),
           entrant(std::type_identity<MutexQueue<T, N>>{}, Role::rival),
           entrant(std::type_identity<MoodycamelConcurrent<T, N>>{}, Role::reference)}};
}

void run(const Options& options) {
  print_heading("Channels for two senders and two receivers", options);
  measure_and_print(
      {.title = "Blocking, throughput; split: senders on one core, receivers on the other",
       .path = "block/throughput",
       .unit = Unit::million_items_per_second,
       .show_usage = true,
       .ratio_to_each_rival = true,
       .columns = {column<4>(options, true), column<64>(options, true), column<1024>(options, true),
                   column<4>(options, false), column<64>(options, false),
                   column<1024>(options, false)}},
      options);
}

}  // namespace
}  // namespace headrace::bench

int main(int argc, char** argv) {
  return headrace::bench::run_main("bench_channel_mpmc", [&] {
    headrace::bench::run(headrace::bench::parse_options(
        argc, argv, "Throughput of queues between two senders and two receivers."));
  });
}
