#include "data/utf8.h"

#include <algorithm>
#include <cstring>

namespace headrace {
namespace {

using Byte = unsigned char;

// Bytes of a character that starts with `lead`; 0 where none does.
std::size_t length_from_lead(Byte lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;  // a continuation, or an over-long form
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

// Length of the well-formed character at the start of bytes, 0 where there is none.
std::size_t character_length(std::string_view bytes) {
  const Byte lead = static_cast<Byte>(bytes[0]);
  const std::size_t length = length_from_lead(lead);
  if (length < 2) return length;
  if (bytes.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<Byte>(bytes[i]) & 0xc0) != 0x80) return 0;
  const Byte second = static_cast<Byte>(bytes[1]);
  const bool over_long = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second > 0x9f;
  const bool beyond_unicode = lead == 0xf4 && second > 0x8f;
  return over_long || surrogate || beyond_unicode ? 0 : length;
}

bool eight_ascii(const char* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return (word & 0x8080808080808080) == 0;
}

}  // namespace

std::uint64_t invalid_utf8_bytes(std::string_view bytes) {
  std::uint64_t invalid = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    if (i + 8 <= bytes.size() && eight_ascii(bytes.data() + i)) {
      i += 8;
      continue;
    }
    const std::size_t length = character_length(bytes.substr(i));
    invalid += length == 0;
    i += std::max<std::size_t>(length, 1);
  }
  return invalid;
}

std::size_t whole_characters(std::string_view bytes) {
  for (std::size_t back = 1; back <= 3 && back < bytes.size(); ++back) {
    const std::size_t length = length_from_lead(static_cast<Byte>(bytes[bytes.size() - back]));
    if (length > back) return bytes.size() - back;
    if (length > 0) break;  // the last character is whole
  }
  return bytes.size();
}

}  // namespace headrace
