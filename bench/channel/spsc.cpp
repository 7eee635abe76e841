// One sender and one receiver: throughput and round trip, spinning and blocking, for items of 8 and
// 64 bytes and capacities of 4, 64 and 1024. usage: bench_channel_spsc [--help]
//
// Spinning: each queue's try_ calls in one loop that waits for nothing, one pause instruction ("p"
// behind a figure) or sixteen ("P") between tries, whichever was the fastest for the queue. Blocking: the calls that put a thread to sleep;
// how long a library spins first decides much of it, so cores busy and sleeps an item stand beside.
#include <fmt/format.h>

#include "competitors.h"
#include "transfer.h"

namespace headrace::bench {
namespace {

enum class Measure { throughput, round_trip };

template <typename Queue, typename T, Measure measure, typename Wait>
Variant variant(const Options& options) {
  return {Wait::mark, [&options](std::uint64_t items) {
            if constexpr (measure == Measure::throughput)
              return one_way<Queue, T, Wait>(options, items);
            else
              return round_trip<Queue, T, Wait>(options, items);
          }};
}

template <typename Queue, typename T, Measure measure, typename... Waits>
Entrant entrant(Role role, const Options& options) {
  return {Queue::name, role, {variant<Queue, T, measure, Waits>(options)...}};
}

template <Measure measure, typename T, std::size_t N>
std::vector<Entrant> spinning(const Options& options) {
  const auto spin = [&]<typename Queue>(std::type_identity<Queue>, Role role) {
    return entrant<Queue, T, measure, Spin<0>, Spin<1>, Spin<16>>(role, options);
  };
  return {spin(std::type_identity<HeadraceSpsc<T, N>>{}, Role::ours),
          spin(std::type_identity<HeadraceBounded<T, N>>{}, Role::reference),
          spin(std::type_identity<BoostFixed<T, N>>{}, Role::rival),
          spin(std::type_identity<BoostDynamic<T, N>>{}, Role::rival),
          spin(std::type_identity<MoodycamelReaderWriter<T, N>>{}, Role::rival),
          spin(std::type_identity<MoodycamelReaderWriterLarger<T, N>>{}, Role::reference),
          spin(std::type_identity<MoodycamelCircular<T, N>>{}, Role::rival),
          spin(std::type_identity<AtomicQueueTry<T, N>>{}, Role::rival),
          spin(std::type_identity<OneTbb<T, N>>{}, Role::rival),
          spin(std::type_identity<MutexQueue<T, N>>{}, Role::rival),
          entrant<AtomicQueueUncancellable<T, N>, T, measure, Spin<0>>(Role::reference, options)};
}

template <Measure measure, typename T, std::size_t N>
std::vector<Entrant> blocking(const Options& options) {
  const auto block = [&]<typename Queue>(std::type_identity<Queue>, Role role) {
    return entrant<Queue, T, measure, Block>(role, options);
  };
  return {block(std::type_identity<HeadraceSpsc<T, N>>{}, Role::ours),
          block(std::type_identity<HeadraceBounded<T, N>>{}, Role::reference),
          block(std::type_identity<MoodycamelCircular<T, N>>{}, Role::rival),
          block(std::type_identity<MoodycamelBlockingReaderWriter<T, N>>{}, Role::rival),
          block(std::type_identity<OneTbb<T, N>>{}, Role::rival),
          block(std::type_identity<MutexQueue<T, N>>{}, Role::rival)};
}

template <Measure measure, bool spin, typename T, std::size_t N>
Column column(const Options& options) {
  std::vector<Entrant> entrants;
  if constexpr (spin)
    entrants = spinning<measure, T, N>(options);
  else
    entrants = blocking<measure, T, N>(options);
  return {fmt::format("{} B, capacity {}", sizeof(T), N), std::move(entrants)};
}

template <Measure measure, bool spin>
Table table(const Options& options) {
  const bool throughput = measure == Measure::throughput;
  return {
      .title = fmt::format("{}, {}", spin ? "Spinning" : "Blocking",
                           throughput ? "throughput" : "round trip"),
      .path =
          fmt::format("{}/{}", spin ? "spin" : "block", throughput ? "throughput" : "round-trip"),
      .unit = throughput ? Unit::million_items_per_second : Unit::nanoseconds,
      .show_usage = !spin,
      .columns = {column<measure, spin, std::uint64_t, 4>(options),
                  column<measure, spin, std::uint64_t, 64>(options),
                  column<measure, spin, std::uint64_t, 1024>(options),
                  column<measure, spin, Line, 4>(options), column<measure, spin, Line, 64>(options),
                  column<measure, spin, Line, 1024>(options)}};
}

void run(const Options& options) {
  print_heading("Channels for one sender and one receiver", options);
  measure_and_print(table<Measure::throughput, true>(options), options);
  measure_and_print(table<Measure::round_trip, true>(options), options);
  measure_and_print(table<Measure::throughput, false>(options), options);
  measure_and_print(table<Measure::round_trip, false>(options), options);
}

}  // namespace
}  // namespace headrace::bench

int main(int argc, char** argv) {
  return headrace::bench::run_main("bench_channel_spsc", [&] {
    headrace::bench::run(headrace::bench::parse_options(
        argc, argv, "Throughput and round trip of queues between two threads."));
  });
}
