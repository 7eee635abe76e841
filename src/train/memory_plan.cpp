#include "train/memory_plan.h"

#include <algorithm>
#include <filesystem>

#include "headrace/error.h"
#include "headrace/quantity.h"
#include "nn/precision.h"
#include "train/dflash_plan.h"

namespace headrace {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

std::uint64_t parameters_of_layer(const LlamaShape& s) {
  const std::int64_t attention = s.hidden * s.head_dim * (2 * s.heads + 2 * s.kv_heads);
  return static_cast<std::uint64_t>(attention + 3 * s.hidden * s.ffn);
}

}  // namespace

std::uint64_t MemoryPlan::total() const {
  return runtime + drafters + std::max(target + features + activations, evaluation);
}

MemoryPlan planned_memory(const DflashSession& session) {
  const DflashOptions& o = session.options;
  const LlamaShape& shape = session.drafter.target;
  const std::uint64_t element = session.precision == Precision::bf16 ? 2 : 4;
  const auto hidden = static_cast<std::uint64_t>(shape.hidden),
             ffn = static_cast<std::uint64_t>(shape.ffn),
             vocab = static_cast<std::uint64_t>(shape.vocab);
  const std::uint64_t tokens = o.batch * o.length, slots = o.batch * o.anchors * o.block;
  // Tied: the embedding is the head.
  const bool untied = std::ranges::find(session.file.tensors(), "output.weight",
                                        &GgufTensor::name) != session.file.tensors().end();
  const std::uint64_t heads = untied ? 2 : 1;
  const std::uint64_t target_parameters =
      static_cast<std::uint64_t>(shape.layers) * parameters_of_layer(shape) +
      heads * vocab * hidden;
  const std::uint64_t drafter_parameters =
      o.layers * parameters_of_layer(shape) + o.taps * hidden * hidden;

  const Plan wanted = wanted_plan(o, session.feature_bytes()).plan;
  const std::uint64_t targets = wanted.stage("target").replicas,
                      drafters = wanted.stage("drafter").replicas;
  MemoryPlan plan;
  plan.runtime = 500 * kMiB;
  // fp32: master, two moments, the gradient summed over replicas; working copies and their gradients in the
  // training precision. The frozen head and embedding stay in that precision too.
  plan.drafters =
      drafter_parameters * (16 + drafters * 2 * element) + heads * vocab * hidden * element;
  plan.target = target_parameters * element + targets * tokens * (6 * hidden + 3 * ffn) * 4;
  const std::uint64_t items =
      wanted.channel("features").items * (o.replan > 0 ? kReplanDeepens : 1);
  plan.features = session.feature_bytes() * (items + targets + drafters);
  // A layer keeps about 12 rows of the hidden size and 4 of the FFN for backward; the head a chunk of logits.
  const std::uint64_t softmax =
      o.head_tokens > 0 ? std::min(vocab, o.head_tokens + o.head_drawn + tokens) : vocab;
  plan.activations = drafters * (o.layers * (slots + tokens) * (12 * hidden + 4 * ffn) * element +
                                 256 * softmax * (4 + element));
  if (o.evaluate) {
    // 16 sequences of 96 and 48 tokens at a time, features of 128 sequences, 8 of them proposed for at a time.
    constexpr std::uint64_t kAtOnce = 16, kPositions = 144, kSequences = 128;
    const std::uint64_t cache =
        kAtOnce * kPositions *
        static_cast<std::uint64_t>(shape.layers * shape.kv_heads * shape.head_dim) * 2 * 4;
    const std::uint64_t features = kSequences * kPositions * o.taps * hidden * element;
    const std::uint64_t buffers =
        kAtOnce * kPositions * (6 * hidden + 3 * ffn) * 4 + 512 * vocab * 4;
    const std::uint64_t file = std::filesystem::file_size(session.target_path);
    plan.evaluation = target_parameters * 4 + cache + features + buffers + file;
  }
  return plan;
}

void check_memory(const DflashSession& session) {
  const std::uint64_t limit = session.options.memory;
  if (limit == 0) return;
  const MemoryPlan plan = planned_memory(session);
  if (plan.total() <= limit) return;
  const auto mib = [](std::uint64_t bytes) { return fmt::format("{} MiB", bytes / kMiB); };
  fail(ErrorCode::bad_input,
       "--memory {} does not suffice: {} are needed (always: runtime {}, drafters {}; training: "
       "target {}, features {}, "
       "activations {}; then evaluation {}); lower --batch, --anchors, --depth or --layers, or "
       "give --no-evaluate",
       format_bytes(limit), mib(plan.total()), mib(plan.runtime), mib(plan.drafters),
       mib(plan.target), mib(plan.features), mib(plan.activations), mib(plan.evaluation));
}

}  // namespace headrace
