// The precision that a model computes in. No libtorch here.
#pragma once

namespace headrace {

enum class Precision { fp32, bf16 };

inline const char* to_string(Precision precision) {
  return precision == Precision::bf16 ? "bf16" : "fp32";
}

// bf16 where this CPU has bf16 dot products (AVX512-BF16 or AMX), else fp32.
Precision native_precision();

}  // namespace headrace
