#include "headrace/accounting.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "headrace/error.h"

namespace headrace {
namespace {

const std::vector<std::string> kCauses = {"starved", "back_pressured", "synchronising",
                                          "host",    "startup",        "tail"};

Span work(std::int64_t start, std::int64_t end, std::uint64_t step = 0) {
  return {.start_ns = start, .end_ns = end, .stage = "s", .step = step};
}
Span wait(std::int64_t start, std::int64_t end, const std::string& cause) {
  return {.start_ns = start, .end_ns = end, .kind = SpanKind::wait, .cause = cause};
}

std::int64_t sum(const DeviceAccount& account) {
  return account.startup_ns + account.span_ns() + account.tail_ns;
}

bool equal(const DeviceAccount& a, const DeviceAccount& b) {
  const auto key = [](const DeviceAccount& x) {
    return std::tuple(x.name, x.busy_ns, x.starved_ns, x.back_pressured_ns, x.synchronising_ns,
                      x.host_ns, x.startup_ns, x.tail_ns, x.busy_ns_by_step);
  };
  return key(a) == key(b);
}

TEST(Accounting, PutsEveryNanosecondWhereItBelongs) {
  std::vector<Span> spans = {wait(0, 10, "startup"),
                             work(10, 20, 0),
                             wait(20, 24, "starved"),
                             work(24, 30, 1),
                             wait(30, 31, "back_pressured"),
                             wait(31, 33, "synchronising"),  // 33 to 36: covered by nothing
                             work(36, 40, 1),
                             wait(40, 50, "tail")};
  const Accounting result = account({.devices = {"gpu0"}}, spans);
  ASSERT_EQ(result.devices.size(), 1u);
  const DeviceAccount& gpu = result.devices[0];
  EXPECT_EQ(result.host_span_ns(), 50);
  EXPECT_EQ(gpu.startup_ns, 10);
  EXPECT_EQ(gpu.busy_ns, 20);
  EXPECT_EQ(gpu.starved_ns, 4);
  EXPECT_EQ(gpu.back_pressured_ns, 1);
  EXPECT_EQ(gpu.synchronising_ns, 2);
  EXPECT_EQ(gpu.host_ns, 3);
  EXPECT_EQ(gpu.tail_ns, 10);
  EXPECT_EQ(gpu.span_ns(), 30);
  EXPECT_EQ(gpu.busy_ns_by_step, (std::map<std::uint64_t, std::int64_t>{{0, 10}, {1, 10}}));
  EXPECT_DOUBLE_EQ(result.share(gpu.busy_ns), 0.4);
  EXPECT_EQ(result.step_ends_ns, (std::map<std::uint64_t, std::int64_t>{{0, 20}, {1, 40}}));
  EXPECT_EQ(result.median_step_ns(), 20);
}

TEST(Accounting, DevicesWithoutWorkAndHostThreads) {
  std::vector<Span> spans = {work(0, 100), wait(5, 9, "starved")};
  spans[1].device = 1;
  spans.push_back(work(-50, 120));
  spans.back().device = 2;
  const Accounting result = account({.devices = {"a", "b", "loader"}, .host_threads = 1}, spans);
  ASSERT_EQ(result.devices.size(), 2u) << "host threads are no devices";
  EXPECT_EQ(result.host_span_ns(), 170);
  EXPECT_EQ(result.devices[0].startup_ns, 50);
  EXPECT_EQ(result.devices[0].tail_ns, 20);
  EXPECT_EQ(result.devices[1].startup_ns, 170) << "never worked";
  EXPECT_EQ(account({.devices = {"a"}}, {}).host_span_ns(), 0);
  EXPECT_THROW(account({.devices = {"a"}}, {work(2, 1)}), Error);
  EXPECT_THROW(account({}, {work(1, 2)}), Error);
}

std::vector<Span> random_spans(std::mt19937& random) {
  std::vector<Span> spans;
  for (std::size_t i = random() % 40; i > 0; --i) {
    const std::int64_t start = random() % 200, length = random() % 30;
    spans.push_back(random() % 2 == 0
                        ? work(start, start + length, random() % 4)
                        : wait(start, start + length, kCauses[random() % kCauses.size()]));
    spans.back().device = random() % 2;
    if (spans.back().kind == SpanKind::work && random() % 3 == 0)
      spans.back().kind = SpanKind::sync;
  }
  return spans;
}

// Reference: one nanosecond at a time.
std::int64_t busy_by_counting(const std::vector<Span>& spans, std::uint32_t device) {
  std::int64_t busy = 0;
  for (std::int64_t t = 0; t < 240; ++t)
    busy += std::any_of(spans.begin(), spans.end(), [&](const Span& span) {
      return span.device == device && span.kind != SpanKind::wait && span.start_ns <= t &&
             t < span.end_ns;
    });
  return busy;
}

TEST(Accounting, AddsUpAndDoesNotDependOnOrderOrPieces) {
  const TraceHeader header{.devices = {"a", "b"}};
  const bool holds = rc::check("shuffled, split and shifted spans", [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Span> spans = random_spans(random);
    const Accounting before = account(header, spans);
    for (std::uint32_t device = 0; device < 2; ++device) {
      const DeviceAccount& account = before.devices[device];
      RC_ASSERT(sum(account) == before.host_span_ns());
      RC_ASSERT(account.busy_ns == busy_by_counting(spans, device));
      std::int64_t by_step = 0;
      for (const auto& [step, ns] : account.busy_ns_by_step) by_step += ns;
      RC_ASSERT(by_step == account.busy_ns);
    }
    std::vector<Span> pieces;
    for (const Span& span : spans) {
      const std::int64_t cut =
          span.start_ns + static_cast<std::int64_t>(random() % (span.end_ns - span.start_ns + 1));
      pieces.push_back(span);
      pieces.back().end_ns = cut;
      pieces.push_back(span);
      pieces.back().start_ns = cut;
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    for (Span& span : pieces) span.start_ns += 1'000'000, span.end_ns += 1'000'000;
    const Accounting after = account(header, pieces);
    for (std::uint32_t device = 0; device < 2; ++device)
      RC_ASSERT(equal(before.devices[device], after.devices[device]));
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace headrace
