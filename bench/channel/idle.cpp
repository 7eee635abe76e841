// What a blocked pipeline costs: four threads joined by channels, first all starved, then all
// back-pressured. usage: bench_channel_idle [SECONDS]   (default 5)
// Exit status 1 where the process uses 1 % of a core or more.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "harness.h"
#include "headrace/channel.h"

namespace headrace::bench {
namespace {

constexpr int stages = 4;
constexpr double most_share = 0.01;

// The share of a core that the process uses, a tenth of a second after all threads have blocked.
double idle_share(double seconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return (process_cpu_seconds() - before) / seconds;
}

// Channel 0 feeds the first stage and channel `stages` takes what the last one makes.
template <typename Channel>
double blocked_pipeline(bool starved, double seconds) {
  std::vector<std::unique_ptr<Channel>> channels;
  for (int i = 0; i <= stages; ++i)
    channels.push_back(
        std::make_unique<Channel>(fmt::format("c{}", i), ChannelLimits{.items = 16}));
  std::vector<std::jthread> threads;
  for (int i = 0; i < stages; ++i)
    threads.emplace_back([&in = *channels[i], &out = *channels[i + 1]] {
      int item = 0;
      while (in.receive(item) == Status::ok && out.send(std::move(item)) == Status::ok) {
      }
    });
  std::jthread source;
  if (!starved)
    source = std::jthread([&first = *channels.front()] {
      while (first.send(1) == Status::ok) {
      }
    });
  const double share = idle_share(seconds);
  for (const auto& channel : channels) channel->close();
  return share;
}

template <typename Channel>
bool measure(const char* name, double seconds) {
  bool good = true;
  for (const bool starved : {true, false}) {
    const double share = blocked_pipeline<Channel>(starved, seconds);
    good = good && share < most_share;
    fmt::print("| {} | {} | {:.4f} % |\n", name, starved ? "starved" : "back-pressured",
               100 * share);
  }
  return good;
}

int run(double seconds) {
  fmt::print("CPU time of four blocked stages over {:g} s, of one core; below {:g} % is right.\n\n",
             seconds, 100 * most_share);
  fmt::print("| channel | stages are | share of a core |\n|---|---|---|\n");
  const bool pair = measure<SpscChannel<int>>("SpscChannel", seconds);
  const bool shared = measure<BoundedChannel<int>>("BoundedChannel", seconds);
  return pair && shared ? 0 : 1;
}

}  // namespace
}  // namespace headrace::bench

int main(int argc, char** argv) {
  double seconds = 0;
  const std::string_view text = argc == 2 ? argv[1] : "5";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (argc > 2 || error != std::errc() || end != text.data() + text.size() || !(seconds > 0)) {
    fmt::print(stderr, "usage: bench_channel_idle [SECONDS]\n");
    return 2;
  }
  return headrace::bench::run(seconds);
}
