// How many threads the matrix products of one worker use. Layer: nn.
//
// libtorch keeps the number per calling thread (OpenMP's and MKL's thread-local settings), with a
// pool of helpers per calling thread: two workers that each call set_compute_threads(1) run their
// products side by side, each on its own core. A thread that never calls it takes the number of the
// latest call anywhere, so every worker calls it before its first tensor operation. Helpers are
// made at the worker's first parallel operation and inherit its CPU affinity then: a worker that is
// to use two cores must be allowed on both before that.
#pragma once

namespace headrace {

void set_compute_threads(int threads);

}  // namespace headrace
