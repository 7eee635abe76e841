// Fused kernels against plain double arithmetic, at odd sizes.
#include "nn/files/cpu_kernels.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace headrace {
namespace {

float to_float(float x) {
  return x;
}
float to_float(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

// One rounding to the storage, and a few of fp32.
template <typename T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-6 : 1.0 / 256 + 2e-6;

template <typename T>
struct Case {
  std::int64_t rows = *rc::gen::inRange<std::int64_t>(1, 5);
  std::int64_t width = *rc::gen::inRange<std::int64_t>(1, 70);
  std::mt19937 random{*rc::gen::arbitrary<std::uint32_t>()};

  template <typename Out>
  std::vector<Out> draw(std::int64_t n, float scale = 1) {
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& value : values) value = normal(random);
    std::vector<Out> out(values.size());
    convert(values.data(), n, out.data());
    return out;
  }
};

template <typename T>
void expect_close(T got, double want, double scale) {
  RC_ASSERT(std::abs(to_float(got) - want) <= kTolerance<T> * (std::abs(want) + scale));
}

template <typename Delta, typename Out>
void check_add_rms_norm() {
  Case<Out> c;
  const auto width = static_cast<std::size_t>(c.width);
  auto residual = c.template draw<float>(c.rows * c.width);
  const auto before = residual;
  const auto delta = c.template draw<Delta>(c.rows * c.width);
  const auto weight = c.template draw<float>(c.width);
  const bool add = *rc::gen::arbitrary<bool>();
  std::vector<Out> out(residual.size());
  add_rms_norm(residual.data(), add ? delta.data() : nullptr, weight.data(), 1e-5, c.rows, c.width,
               out.data());
  for (std::size_t r = 0; r < static_cast<std::size_t>(c.rows); ++r) {
    double squares = 0;
    for (std::size_t i = r * width; i < (r + 1) * width; ++i) {
      RC_ASSERT(residual[i] == (add ? before[i] + to_float(delta[i]) : before[i]));
      squares += static_cast<double>(residual[i]) * residual[i];
    }
    const double rms = std::sqrt(squares / static_cast<double>(width) + 1e-5);
    for (std::size_t i = 0; i < width; ++i)
      expect_close(out[r * width + i], residual[r * width + i] / rms * weight[i], 0);
  }
}

TEST(CpuKernels, add_rms_norm) {
  EXPECT_TRUE(rc::check("fp32", check_add_rms_norm<float, float>));
  EXPECT_TRUE(rc::check("bf16", check_add_rms_norm<Bf16, Bf16>));
  EXPECT_TRUE(rc::check("bf16 in, fp32 out", check_add_rms_norm<Bf16, float>));
}

template <typename T>
void check_silu_mul() {
  Case<T> c;
  const float scale = *rc::gen::element(1.0f, 30.0f, 1000.0f);
  const auto gate_up = c.template draw<T>(c.rows * 2 * c.width, scale);
  std::vector<T> out(static_cast<std::size_t>(c.rows * c.width));
  silu_mul(gate_up.data(), c.rows, c.width, out.data());
  for (std::int64_t r = 0; r < c.rows; ++r)
    for (std::int64_t i = 0; i < c.width; ++i) {
      const double gate = to_float(gate_up[static_cast<std::size_t>(r * 2 * c.width + i)]);
      const double up = to_float(gate_up[static_cast<std::size_t>((r * 2 + 1) * c.width + i)]);
      // Below -87 the sigmoid stops at e^-87.
      expect_close(out[static_cast<std::size_t>(r * c.width + i)],
                   gate / (1 + std::exp(-gate)) * up, 1e-28 * scale * scale);
    }
}

TEST(CpuKernels, silu_mul) {
  EXPECT_TRUE(rc::check("fp32", check_silu_mul<float>));
  EXPECT_TRUE(rc::check("bf16", check_silu_mul<Bf16>));
}

template <typename T>
void check_rope() {
  Case<T> c;
  const std::int64_t heads = *rc::gen::inRange<std::int64_t>(1, 4), rest = 5;
  const std::int64_t half = *rc::gen::inRange<std::int64_t>(1, 40), head_dim = 2 * half;
  const std::int64_t stride = heads * head_dim + rest;
  const double base = *rc::gen::element(10000.0, 100000.0);
  std::vector<std::int64_t> at(static_cast<std::size_t>(c.rows));
  for (auto& position : at) position = *rc::gen::inRange<std::int64_t>(0, 100000);
  std::vector<float> cosine(static_cast<std::size_t>(c.rows * half)), sine(cosine.size());
  rope_tables(base, at.data(), c.rows, head_dim, cosine.data(), sine.data());
  auto x = c.template draw<T>(c.rows * stride);
  const auto before = x;
  rope(x.data(), c.rows, stride, heads, head_dim, cosine.data(), sine.data());
  for (std::int64_t r = 0; r < c.rows; ++r) {
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < half; ++i) {
        const auto low = static_cast<std::size_t>(r * stride + h * head_dim + i);
        const auto high = low + static_cast<std::size_t>(half);
        const double angle =
            static_cast<double>(at[static_cast<std::size_t>(r)]) *
            std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
        const double a = to_float(before[low]), b = to_float(before[high]);
        const double length = std::hypot(a, b);
        expect_close(x[low], a * std::cos(angle) - b * std::sin(angle), length);
        expect_close(x[high], b * std::cos(angle) + a * std::sin(angle), length);
      }
    for (std::int64_t i = heads * head_dim; i < stride; ++i) {
      const auto at_i = static_cast<std::size_t>(r * stride + i);
      RC_ASSERT(to_float(x[at_i]) == to_float(before[at_i]));
    }
  }
}

TEST(CpuKernels, rope) {
  EXPECT_TRUE(rc::check("fp32", check_rope<float>));
  EXPECT_TRUE(rc::check("bf16", check_rope<Bf16>));
}

// The nearest of the two neighbours in bf16, found by comparing distances.
TEST(CpuKernels, bf16_rounds_to_the_nearest_and_ties_to_even) {
  EXPECT_TRUE(rc::check([] {
    const auto bits =
        *rc::gen::arbitrary<std::uint32_t>() & *rc::gen::element(0xffffffffu, 0xffff8000u);
    const float x = std::bit_cast<float>(bits);
    Bf16 got;
    convert(&x, 1, &got);
    if (std::isnan(x)) {
      RC_ASSERT(std::isnan(to_float(got)));
      return;
    }
    RC_PRE(std::isfinite(x) && std::abs(x) < 3e38f);
    const Bf16 down{static_cast<std::uint16_t>(bits >> 16)};
    const Bf16 up{static_cast<std::uint16_t>(down.bits + 1)};
    const double below = std::abs(static_cast<double>(x) - to_float(down));
    const double above = std::abs(to_float(up) - static_cast<double>(x));
    const Bf16 want = below < above || (below == above && down.bits % 2 == 0) ? down : up;
    RC_ASSERT(got.bits == want.bits);
  }));
}

TEST(CpuKernels, rows_are_gathered_and_stored) {
  EXPECT_TRUE(rc::check([] {
    Case<Bf16> c;
    const std::int64_t vocab = 11, stride = c.width + 3;
    const auto table = c.draw<Bf16>(vocab * c.width);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(c.rows));
    for (auto& id : ids) id = *rc::gen::inRange<std::int64_t>(0, vocab);
    std::vector<float> rows(static_cast<std::size_t>(c.rows * c.width));
    gather_rows(table.data(), ids.data(), c.rows, c.width, rows.data());
    std::vector<Bf16> out(static_cast<std::size_t>(c.rows * stride), Bf16{7});
    store_rows(rows.data(), c.rows, c.width, out.data(), stride);
    for (std::int64_t r = 0; r < c.rows; ++r)
      for (std::int64_t i = 0; i < stride; ++i) {
        const Bf16 got = out[static_cast<std::size_t>(r * stride + i)];
        const auto id = ids[static_cast<std::size_t>(r)];
        RC_ASSERT(got.bits ==
                  (i < c.width ? table[static_cast<std::size_t>(id * c.width + i)].bits : 7));
      }
  }));
}

}  // namespace
}  // namespace headrace
