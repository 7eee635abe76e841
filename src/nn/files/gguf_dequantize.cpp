// Values of GGUF tensors as fp32.
#include <bit>
#include <cstring>

#include "headrace/error.h"
#include "headrace/gguf.h"
#include "nn/files/ggml_types.h"

namespace headrace {
namespace {

// Tensors need not be aligned to their element: the file says the alignment.
template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

float from_half(const std::byte* from) {
  const std::uint32_t half = load<std::uint16_t>(from);
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1f, mantissa = half & 0x3ff;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24, exact in fp32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

float from_bfloat(const std::byte* from) {
  return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(from)} << 16);
}

int low(std::byte b) {
  return static_cast<int>(b & std::byte{0xf});
}
int high(std::byte b) {
  return static_cast<int>(b >> 4);
}

// A block of 32: value j in the low half of byte j, value j + 16 in its high half.
void q4_0(const std::byte* block, float* out) {
  const float scale = from_half(block);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(low(block[2 + j]) - 8) * scale;
    out[j + 16] = static_cast<float>(high(block[2 + j]) - 8) * scale;
  }
}

void q4_1(const std::byte* block, float* out) {
  const float scale = from_half(block), least = from_half(block + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(low(block[4 + j])) * scale + least;
    out[j + 16] = static_cast<float>(high(block[4 + j])) * scale + least;
  }
}

void q8_0(const std::byte* block, float* out) {
  const float scale = from_half(block);
  for (int j = 0; j < 32; ++j)
    out[j] = static_cast<float>(static_cast<std::int8_t>(block[2 + j])) * scale;
}

void dequantize_values(GgmlType type, const std::byte* from, std::uint64_t values, float* out) {
  const GgmlBlock block = block_of(type);
  if (type == GgmlType::F32) {
    std::memcpy(out, from, values * sizeof(float));
    return;
  }
  for (std::uint64_t i = 0; i < values;
       i += block.values, from += block.bytes, out += block.values) {
    switch (type) {
      case GgmlType::F32:
        break;  // above
      case GgmlType::F16:
        *out = from_half(from);
        break;
      case GgmlType::BF16:
        *out = from_bfloat(from);
        break;
      case GgmlType::Q4_0:
        q4_0(from, out);
        break;
      case GgmlType::Q4_1:
        q4_1(from, out);
        break;
      case GgmlType::Q8_0:
        q8_0(from, out);
        break;
    }
  }
}

}  // namespace

GgmlBlock block_of(GgmlType type) {
  switch (type) {
    case GgmlType::F32:
      return {1, 4};
    case GgmlType::F16:
      return {1, 2};
    case GgmlType::BF16:
      return {1, 2};
    case GgmlType::Q4_0:
      return {32, 18};
    case GgmlType::Q4_1:
      return {32, 20};
    case GgmlType::Q8_0:
      return {32, 34};
  }
  fail(ErrorCode::internal, "no such tensor type: {}", static_cast<std::uint32_t>(type));
}

std::optional<GgmlType> supported_type(std::uint32_t raw) {
  switch (static_cast<GgmlType>(raw)) {
    case GgmlType::F32:
    case GgmlType::F16:
    case GgmlType::BF16:
    case GgmlType::Q4_0:
    case GgmlType::Q4_1:
    case GgmlType::Q8_0:
      return static_cast<GgmlType>(raw);
  }
  return std::nullopt;
}

std::string type_name(std::uint32_t raw) {
  static constexpr const char* names[] = {
      "F32",     "F16",    "Q4_0",    "Q4_1",  "Q4_2",   "Q4_3",  "Q5_0",  "Q5_1",
      "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
      "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
      "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16"};
  if (raw < std::size(names)) return names[raw];
  if (raw == 34) return "TQ1_0";
  if (raw == 35) return "TQ2_0";
  if (raw == 39) return "MXFP4";
  return fmt::format("type {}", raw);
}

void GgufFile::dequantize(const GgufTensor& tensor, float* out) {
  dequantize_values(tensor.type, tensor.data, tensor.elements(), out);
}

void GgufFile::dequantize_rows(const GgufTensor& tensor, std::uint64_t first, std::uint64_t count,
                               float* out) {
  if (tensor.shape.size() != 2 || first > tensor.shape[0] || count > tensor.shape[0] - first)
    fail(ErrorCode::internal, "tensor {} has no rows [{}, {} + {})", tensor.name, first, first,
         count);
  const GgmlBlock block = block_of(tensor.type);
  const std::uint64_t row = tensor.shape[1];
  dequantize_values(tensor.type, tensor.data + first * (row / block.values) * block.bytes,
                    count * row, out);
}

}  // namespace headrace
