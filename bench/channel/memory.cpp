// What a channel holds: many items through channels that are bounded in bytes, with every
// allocation counted. usage: bench_channel_memory [ITEMS]   (default 100,000,000)
//
// Items own 1 to 4096 bytes that a counting allocator provides. At no time may more than the bound
// plus one item on either side of the channel be alive. The rest of the heap, which is the
// channel's own, may not grow after the first hundredth of the items. Exit status 1 where either
// is broken.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "harness.h"
#include "headrace/channel.h"
#include "headrace/quantity.h"

namespace headrace::bench {
namespace {

// Bytes that are allocated now, and the most there ever were.
class Meter {
 public:
  void add(std::size_t bytes) noexcept {
    const std::int64_t now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  void subtract(std::size_t bytes) noexcept { now_.fetch_sub(bytes, std::memory_order_relaxed); }
  void reset_peak() noexcept { peak_ = now_.load(); }
  std::int64_t now() const noexcept { return now_; }
  std::int64_t peak() const noexcept { return peak_; }

 private:
  alignas(64) std::atomic<std::int64_t> now_{0};
  alignas(64) std::atomic<std::int64_t> peak_{0};
};

Meter payload_meter;  // what items own, in bytes asked for
Meter heap_meter;     // everything from operator new, in bytes that malloc gave

constexpr std::uint64_t largest_item = 4096, bound = 64 << 10, capacity = 64;

// Owns bytes that the meter of payloads counts and that of the heap does not.
class Payload {
 public:
  Payload() = default;
  explicit Payload(std::uint32_t size) : bytes_(static_cast<char*>(std::malloc(size)), {size}) {
    if (bytes_ == nullptr) throw std::bad_alloc();
    payload_meter.add(size);
  }
  std::uint32_t size() const { return bytes_.get_deleter().size; }
  char* data() { return bytes_.get(); }

 private:
  struct Free {
    std::uint32_t size;
    void operator()(char* bytes) const noexcept {
      std::free(bytes);
      payload_meter.subtract(size);
    }
  };
  std::unique_ptr<char, Free> bytes_;
};

// Sizes that look random and that sender and receiver both know.
std::uint32_t size_of(std::uint64_t item) {
  return 1 + static_cast<std::uint32_t>((item * 0x9E3779B97F4A7C15U) >> 52);
}

template <typename Channel>
bool holds(const char* name, std::uint64_t items) {
  Channel channel("memory", {.items = capacity, .bytes = bound});
  const std::uint64_t settled = items / 100;
  std::int64_t heap_settled = 0;
  std::uint64_t wrong = 0, most_bytes = 0;
  payload_meter.reset_peak();
  const Usage usage = run_together(
      {{{},
        [&] {
          for (std::uint64_t i = 0; i < items; ++i) {
            const std::uint32_t size = size_of(i);
            Payload payload(size);
            std::memcpy(payload.data(), &i, std::min<std::size_t>(size, sizeof i));
            channel.send(std::move(payload), size);
          }
          channel.close();
        }},
       {{}, [&] {
          Payload payload;
          std::uint64_t count = 0;
          while (channel.receive(payload) == Status::ok) {
            const std::size_t known = std::min<std::size_t>(payload.size(), sizeof count);
            wrong +=
                payload.size() != size_of(count) || std::memcmp(payload.data(), &count, known) != 0;
            most_bytes = std::max(most_bytes, channel.bytes());
            if (++count == settled) {
              heap_settled = heap_meter.now();
              heap_meter.reset_peak();
            }
          }
          wrong += items - count;
        }}});
  const auto allowed = static_cast<std::int64_t>(bound + 2 * largest_item);
  const std::int64_t growth = heap_meter.peak() - heap_settled;
  const bool good = wrong == 0 && most_bytes <= bound && payload_meter.peak() <= allowed &&
                    growth <= 0 && payload_meter.now() == 0;
  fmt::print("| {} | {:.0f} | {} | {} of {} | {} of {} | {} B | {} |\n", name,
             1e9 * usage.seconds / static_cast<double>(items), wrong, most_bytes, bound,
             payload_meter.peak(), allowed, growth, good ? "holds" : "BROKEN");
  return good;
}

int run(std::uint64_t items) {
  fmt::print("{} items of 1 to {} bytes through channels of {} and {} items.\n\n", items,
             largest_item, format_bytes(bound), capacity);
  fmt::print(
      "| channel | ns an item | lost or damaged | most bytes inside | most bytes alive, with one "
      "item on either side | growth of the rest of the heap after {} items | bound |\n"
      "|---|---|---|---|---|---|---|\n",
      items / 100);
  const bool pair = holds<SpscChannel<Payload>>("SpscChannel", items);
  const bool shared = holds<BoundedChannel<Payload>>("BoundedChannel", items);
  return pair && shared ? 0 : 1;
}

}  // namespace
}  // namespace headrace::bench

// Every operator new of the program comes through these two.
void* operator new(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  headrace::bench::heap_meter.add(malloc_usable_size(memory));
  return memory;
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  void* memory = nullptr;
  if (posix_memalign(&memory, static_cast<std::size_t>(alignment), size) != 0)
    throw std::bad_alloc();
  headrace::bench::heap_meter.add(malloc_usable_size(memory));
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) headrace::bench::heap_meter.subtract(malloc_usable_size(memory));
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  operator delete(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  operator delete(memory);
}

int main(int argc, char** argv) {
  std::uint64_t items = 0;
  const std::string_view text = argc == 2 ? argv[1] : "100000000";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), items);
  if (argc > 2 || error != std::errc() || end != text.data() + text.size() || items < 1000) {
    fmt::print(stderr, "usage: bench_channel_memory [ITEMS]   (at least 1000)\n");
    return 2;
  }
  return headrace::bench::run(items);
}
