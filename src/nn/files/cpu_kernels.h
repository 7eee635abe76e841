// Fused elementwise kernels for the CPU, without libtorch: what lies between two matrix products.
//
// Rows are contiguous unless a stride (in elements) is given. Arithmetic is fp32 whatever the
// storage. A row's bits depend on that row alone, so callers may split rows over threads as they
// like, and on the CPU's vector width not at all: sums run over 16 partial sums everywhere, and
// nothing is contracted. Pointers of one call do not overlap unless the comment says so.
#pragma once

#include <cstdint>

namespace headrace {

// Storage of a bfloat16: the upper half of an fp32. The layout of c10::BFloat16.
struct Bf16 {
  std::uint16_t bits = 0;
};

// Round to nearest, ties to even; a NaN stays a NaN.
void convert(const float* in, std::int64_t n, Bf16* out);
void convert(const Bf16* in, std::int64_t n, float* out);
void convert(const float* in, std::int64_t n,
             float* out);  // a copy, for code generic in the storage

// `rows` rows of `width` from fp32 to every `stride`-th element of `out`: columns of a wider
// matrix.
void store_rows(const float* in, std::int64_t rows, std::int64_t width, float* out,
                std::int64_t stride);
void store_rows(const float* in, std::int64_t rows, std::int64_t width, Bf16* out,
                std::int64_t stride);

// out[i] = table[ids[i]] as fp32. Ids are trusted.
void gather_rows(const float* table, const std::int64_t* ids, std::int64_t rows, std::int64_t width,
                 float* out);
void gather_rows(const Bf16* table, const std::int64_t* ids, std::int64_t rows, std::int64_t width,
                 float* out);

// residual += delta (skipped where delta is null), then out = residual / rms(residual) * weight,
// where rms(x) = sqrt(mean(x^2) + eps).
void add_rms_norm(float* residual, const float* delta, const float* weight, double eps,
                  std::int64_t rows, std::int64_t width, float* out);
void add_rms_norm(float* residual, const Bf16* delta, const float* weight, double eps,
                  std::int64_t rows, std::int64_t width, Bf16* out);
void add_rms_norm(float* residual, const Bf16* delta, const float* weight, double eps,
                  std::int64_t rows, std::int64_t width, float* out);

// Each row of `gate_up` is [gate | up], `width` elements each: out = gate * sigmoid(gate) * up.
// sigmoid is within 2 ulp of the exact one.
void silu_mul(const float* gate_up, std::int64_t rows, std::int64_t width, float* out);
void silu_mul(const Bf16* gate_up, std::int64_t rows, std::int64_t width, Bf16* out);

// Angles of rotary embeddings: cosine and sine of positions[r] * base^(-2i/head_dim), i <
// head_dim/2: tables [rows, head_dim/2], made once a pass and used by all its layers.
void rope_tables(double base, const std::int64_t* positions, std::int64_t rows,
                 std::int64_t head_dim, float* cosine, float* sine);

// Rotates the first `heads` heads of each row in place: element i of a head with element
// i + head_dim/2 (halves, as in Hugging Face checkpoints; GGUF stores q and k permuted for
// interleaved pairs). Row r takes the angles of row r of the tables.
void rope(float* x, std::int64_t rows, std::int64_t stride, std::int64_t heads,
          std::int64_t head_dim, const float* cosine, const float* sine);
void rope(Bf16* x, std::int64_t rows, std::int64_t stride, std::int64_t heads,
          std::int64_t head_dim, const float* cosine, const float* sine);

}  // namespace headrace
