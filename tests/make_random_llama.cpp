// Writes the smallest llama that a drafter can be trained beside. usage: make_random_llama FILE
#include <cstdio>

#include "gguf_writer.h"

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-')
    return std::fputs("usage: make_random_llama FILE\n", stderr), 2;
  using headrace::testing::RandomLlama;
  const RandomLlama shape{
      .hidden = 32, .layers = 4, .heads = 2, .kv_heads = 1, .ffn = 32, .context = 64};
  headrace::testing::write_file(argv[1], headrace::testing::random_llama(shape));
}
