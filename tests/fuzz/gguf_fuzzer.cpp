// Whatever bytes a GGUF file holds: it is used, or refused with Error(bad_input).
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/error.h"
#include "headrace/gguf.h"
#include "headrace/tokenizer.h"
#include "nn/llama_shape.h"

namespace {

using namespace headrace;

template <typename Action>
void attempt(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) std::abort();
  }
}

void use(const GgufFile& file, std::string_view text) {
  for (const GgufTensor& tensor : file.tensors()) {
    std::vector<float> values(tensor.elements());
    GgufFile::dequantize(tensor, values.data());
  }
  attempt([&] { llama_shape(file); });
  attempt([&] {
    const Tokenizer tokenizer = Tokenizer::from(file);
    for (const bool special : {false, true}) tokenizer.decode(tokenizer.encode(text, special));
    attempt([&] { tokenizer.mask_token(); });
    attempt([&] { tokenizer.chat_prompt("Hi"); });
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A file in memory, opened by its name as any other.
  const int descriptor = ::memfd_create("gguf", MFD_CLOEXEC);
  if (descriptor < 0 || ::write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  attempt([&] {
    // The end of the file, tensor data as a rule, is also the text that is encoded.
    const std::size_t length = std::min<std::size_t>(size, 512);
    use(GgufFile::open(path),
        std::string_view(reinterpret_cast<const char*>(data) + size - length, length));
  });
  ::close(descriptor);
  return 0;
}
