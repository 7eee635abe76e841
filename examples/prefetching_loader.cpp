// A loader that prefetches, commits and resumes. Two threads read batches of ten records of a file.
// Every seven steps the run ends, as if it had been killed, and the next one goes on from the
// position that was committed. usage: prefetching_loader [FILE]
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "headrace/prefetch.h"

struct Batch {
  std::vector<std::int32_t> records;
  headrace::Position position;  // just after the batch
};

int main(int argc, char** argv) {
  using namespace headrace;
  const std::string path = argc > 1 ? argv[1] : "prefetching_loader.records";
  std::vector<std::int32_t> all(1003);
  std::iota(all.begin(), all.end(), 1);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(all.data()), std::ssize(all) * 4);

  std::string checkpoint = nlohmann::json(Position{}).dump();
  std::int64_t sum = 0, runs = 0;
  for (bool more = true; more; ++runs) {
    const Position start = nlohmann::json::parse(checkpoint).get<Position>();
    const auto claim = [&all, next = start](Batch& batch) mutable {
      batch.records.resize(std::min<std::size_t>(10, all.size() - next.row));
      next.row += batch.records.size();
      ++next.batch;
      batch.position = next;
      return !batch.records.empty();
    };
    const auto make = [&path](Batch& batch) {
      std::ifstream file(path, std::ios::binary);
      const auto records = std::ssize(batch.records);
      file.seekg((static_cast<std::int64_t>(batch.position.row) - records) * 4);
      if (!file.read(reinterpret_cast<char*>(batch.records.data()), records * 4))
        fail(ErrorCode::io, "{}: cannot be read", path);
    };
    Prefetch<Batch> batches({claim, make}, {.depth = 3, .workers = 2, .start = start});
    more = batches.prime();
    for (int step = 0; more && step < 7; ++step, more = batches.next())
      sum =
          std::accumulate(batches.current().records.begin(), batches.current().records.end(), sum);
    checkpoint = nlohmann::json(batches.offsets_to_commit()).dump();  // beside the weights
  }
  fmt::print("{} in {} runs, then {}\n", sum, runs, checkpoint);
  return sum == 1003 * 1004 / 2 && runs == 15 ? 0 : 1;
}
