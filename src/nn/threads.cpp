#include "nn/threads.h"

#include <ATen/Parallel.h>

namespace headrace {

void set_compute_threads(int threads) {
  at::set_num_threads(threads);
}

}  // namespace headrace
