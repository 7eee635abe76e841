// Causal attention in bf16 against plain double arithmetic on the same inputs.
#include "nn/files/cpu_attention.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace headrace {
namespace {

double value_of(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

TEST(CpuAttention, equals_double_arithmetic) {
  if (!has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot products";
  EXPECT_TRUE(rc::check([] {
    AttentionShape shape;
    shape.length = *rc::gen::inRange<std::int64_t>(1, 150);
    shape.kv_heads = *rc::gen::inRange<std::int64_t>(1, 4);
    shape.heads = shape.kv_heads * *rc::gen::inRange<std::int64_t>(1, 4);
    shape.head_dim = *rc::gen::element<std::int64_t>(16, 32, 64, 80, 128);
    const std::int64_t d = shape.head_dim, stride = (shape.heads + 2 * shape.kv_heads) * d;
    std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
    std::normal_distribution<float> normal(0, *rc::gen::element(0.1f, 1.0f, 4.0f));
    std::vector<float> drawn(static_cast<std::size_t>(shape.length * stride));
    for (float& x : drawn) x = normal(random);
    std::vector<Bf16> qkv(drawn.size()),
        out(static_cast<std::size_t>(shape.length * shape.heads * d));
    convert(drawn.data(), static_cast<std::int64_t>(drawn.size()), qkv.data());
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv)
      causal_attention(qkv.data(), shape, kv, out.data());

    const auto at = [&](std::int64_t row, std::int64_t head, std::int64_t i) {
      return value_of(qkv[static_cast<std::size_t>(row * stride + head * d + i)]);
    };
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const std::int64_t key = shape.heads + h / (shape.heads / shape.kv_heads);
      for (std::int64_t q = 0; q < shape.length; ++q) {
        std::vector<double> share, want(static_cast<std::size_t>(d)), size(want.size());
        double sum = 0, most = -1e300;
        for (std::int64_t k = 0; k <= q; ++k) {
          double dot = 0;
          for (std::int64_t i = 0; i < d; ++i) dot += at(q, h, i) * at(k, key, i);
          share.push_back(dot / std::sqrt(static_cast<double>(d)));
          most = std::max(most, share.back());
        }
        for (double& s : share) sum += s = std::exp(s - most);
        for (std::int64_t k = 0; k <= q; ++k)
          for (std::int64_t i = 0; i < d; ++i) {
            const double part =
                share[static_cast<std::size_t>(k)] / sum * at(k, key + shape.kv_heads, i);
            want[static_cast<std::size_t>(i)] += part;
            size[static_cast<std::size_t>(i)] += std::abs(part);
          }
        // bf16 keeps 8 bits, so rounding moves shares, through them their sum, and results by at
        // most 2^-8 each; the rest is for second order.
        for (std::int64_t i = 0; i < d; ++i) {
          const double got = value_of(out[static_cast<std::size_t>((q * shape.heads + h) * d + i)]);
          const auto j = static_cast<std::size_t>(i);
          RC_ASSERT(std::abs(got - want[j]) <= 3.1 / 256 * size[j] + 1e-5);
        }
      }
    }
  }));
}

// What follows a position moves no bit of it.
TEST(CpuAttention, looks_only_back) {
  if (!has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot products";
  const AttentionShape shape{.length = 100, .heads = 2, .kv_heads = 1, .head_dim = 64};
  std::vector<Bf16> qkv(100 * 256), before(100 * 128), after(before.size());
  std::mt19937 random(5);
  for (Bf16& x : qkv) x.bits = static_cast<std::uint16_t>(0x3f00 + random() % 256);
  causal_attention(qkv.data(), shape, 0, before.data());
  for (std::size_t i = 41 * 256; i < qkv.size(); ++i) qkv[i].bits ^= 0x8000;
  causal_attention(qkv.data(), shape, 0, after.data());
  std::size_t moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool differs = before[i].bits != after[i].bits;
    ASSERT_FALSE(differs && i < 41 * 128) << "element " << i;
    moved += differs;
  }
  EXPECT_GT(moved, 59u * 64);
}

}  // namespace
}  // namespace headrace
