// Generators of file contents: bytes of all kinds, in shapes that files have.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::testing {

// Text, CRLF lines, invalid UTF-8, NULs or nothing. `nul` false: no NUL, so a folder's file is
// always taken.
inline rc::Gen<std::string> content(bool nul) {
  const std::vector<std::string> alphabet = {
      "a",    "b ",   "\n",       "\r\n",         "def f():\n",
      "\xff", "\xc3", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
  auto symbols = alphabet;
  if (nul) symbols.emplace_back(1, '\0');
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(symbols)),
                      [](const std::vector<std::string>& parts) {
                        std::string all;
                        for (const std::string& part : parts) all += part;
                        return all;
                      });
}

// Each byte is a token.
inline std::vector<std::int32_t> encode_bytes(std::string_view bytes) {
  return {reinterpret_cast<const unsigned char*>(bytes.data()),
          reinterpret_cast<const unsigned char*>(bytes.data()) + bytes.size()};
}

}  // namespace headrace::testing
