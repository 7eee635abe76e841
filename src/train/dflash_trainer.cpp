#include "train/dflash_trainer.h"

#include <algorithm>
#include <utility>

#include "headrace/error.h"
#include "nn/drafter.h"
#include "nn/objective.h"
#include "nn/target.h"
#include "train/drafter_files.h"
#include "train/gradient_bucket.h"
#include "train/optimizer.h"
#include "train/progress_line.h"
#include "train/steps_log.h"
#include "train/weights_hash.h"

namespace headrace {

struct FeatureBatch {
  std::shared_ptr<const TokenBatch> batch;
  torch::Tensor features;  // [rows, length, taps * hidden]
};

namespace {

torch::Tensor int64_tensor(const std::vector<std::int32_t>& values,
                           std::vector<std::int64_t> shape) {
  return torch::from_blob(const_cast<std::int32_t*>(values.data()), shape, torch::kInt32)
      .to(torch::kInt64);
}

DraftBatch draft_batch(const FeatureBatch& item) {
  const TokenBatch& batch = *item.batch;
  const auto rows = static_cast<std::int64_t>(batch.rows),
             length = static_cast<std::int64_t>(batch.length);
  return {item.features, int64_tensor(batch.tokens, {rows, length}),
          int64_tensor(batch.row_lengths, {rows}),
          int64_tensor(batch.anchors, {rows, static_cast<std::int64_t>(batch.anchors_per_row)})};
}

Parameters start_parameters(const DflashSession& session) {
  if (session.resumed) return parameters_of(session.resumed->model);
  if (session.options.start == "random")
    return Drafter::random_parameters(session.drafter, session.options.seed);
  return Drafter::parameters_from_target(session.drafter, session.file);
}

std::vector<float> flat_of(const FlatLayout& layout, const Parameters& parameters) {
  std::vector<float> flat(layout.elements);
  flatten(layout, parameters, flat);
  return flat;
}

// The tensors of a layout in a flat array, borrowed.
std::vector<SafeTensor> tensors_of(const FlatLayout& layout, std::span<const float> flat) {
  std::vector<SafeTensor> tensors;
  for (const FlatLayout::Entry& entry : layout.entries)
    tensors.push_back({entry.name, "F32", entry.shape,
                       reinterpret_cast<const std::byte*>(flat.data() + entry.offset),
                       entry.elements * sizeof(float)});
  return tensors;
}

SafeTensor flat_tensor(const char* name, std::span<const float> flat) {
  return {name,
          "F32",
          {static_cast<std::int64_t>(flat.size())},
          reinterpret_cast<const std::byte*>(flat.data()),
          flat.size_bytes()};
}

// Error(bad_input) where the file's tensor is not of `size` fp32 values.
std::span<const float> flat_values(const SafeTensorsFile& file, const char* name,
                                   std::size_t size) {
  const SafeTensor& tensor = file.tensor(name);
  if (tensor.dtype != "F32" || tensor.bytes != size * sizeof(float))
    fail(ErrorCode::bad_input, "optimizer.safetensors: {} is {} of {} bytes, expected F32 of {}",
         name, tensor.dtype, tensor.bytes, size * sizeof(float));
  return {reinterpret_cast<const float*>(tensor.data), size};
}

// fc mixes the taps for every layer at once: it learns at a fraction of the rate (docs/recipe.md).
const std::map<std::string, double> kRateScale = {{"fc.weight", 0.3}};
LearningRate::Decay decay_of(const std::string& name) {
  if (name == "cosine") return LearningRate::Decay::cosine;
  return name == "wsd" ? LearningRate::Decay::wsd : LearningRate::Decay::linear;
}

void add_to(std::vector<double>& sum, const std::vector<double>& values) {
  sum.resize(std::max(sum.size(), values.size()), 0);
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

}  // namespace

std::shared_ptr<const Target> load_training_target(const DflashSession& session) {
  ProgressLine progress("loading the target");
  return std::make_shared<const Target>(Target::load(
      session.file, native_precision(),
      [&](double share) { progress.update(static_cast<std::uint64_t>(100 * share), 100); }));
}

// One drafter and what its last backward pass left.
struct Replica {
  std::unique_ptr<Drafter> drafter;
  std::shared_ptr<const TokenBatch> batch;  // null: has no gradient of the present step
  double loss = 0;                          // its numerator
  std::vector<double> accepted, counted;
};

struct DflashTrainer::State {
  const DflashSession& session;
  const DflashOptions& options;
  std::shared_ptr<const Target> target;
  torch::Tensor head;  // the target's
  TextSource source;
  Optimizer optimizer;
  LearningRate rate;
  std::vector<Replica> replicas;
  GradientBuckets buckets;
  std::vector<std::int64_t> frequent;   // empty: the whole head
  std::vector<float> delayed_gradient;  // of the step before, with --grad-delay 1
  std::uint64_t total_steps = 0, tokens = 0;
  Position position;
  std::vector<StepLog> log;
};

DflashTrainer::DflashTrainer(const DflashSession& session, std::shared_ptr<const Target> target,
                             std::uint64_t replicas) {
  const DflashOptions& o = session.options;
  const Parameters start = start_parameters(session);
  FlatLayout layout = flat_layout(start);
  std::vector<float> weights = flat_of(layout, start);
  state_.reset(new State{
      .session = session,
      .options = o,
      .target = std::move(target),
      .source = TextSource(session.manifest, session.text_options(), session.encode()),
      .optimizer =
          Optimizer(layout, std::move(weights),
                    {.weight_decay = o.weight_decay, .clip = o.clip, .rate_scale = kRateScale}),
      .rate = {.peak = o.learning_rate, .decay = decay_of(o.decay), .warmup = o.warmup},
      .buckets = GradientBuckets(std::move(layout), replicas)});
  State& s = *state_;
  s.head = s.target->head();
  const FlatLayout& flat = s.optimizer.layout();
  if (o.grad_delay > 0) s.delayed_gradient.resize(flat.elements);
  const torch::ScalarType type =
      session.precision == Precision::bf16 ? torch::kBFloat16 : torch::kFloat32;
  for (std::uint64_t r = 0; r < replicas; ++r) {
    s.replicas.push_back(
        {.drafter = std::make_unique<Drafter>(session.drafter, trainable_copy(start, type),
                                              s.target->embedding(), s.head)});
    s.buckets.attach(r, s.replicas.back().drafter->parameters());
  }
  if (!session.resumed) return;
  const CheckpointFiles& files = *session.resumed;
  s.tokens = files.state.at("tokens");
  s.position = session.start_position();
  s.source.seek(s.position);
  const std::vector<float> stored = flat_of(flat, start);
  s.optimizer.restore(stored, flat_values(files.optimizer, "first_moment", flat.elements),
                      flat_values(files.optimizer, "second_moment", flat.elements), files.step);
  if (o.grad_delay > 0)
    std::ranges::copy(flat_values(files.optimizer, "delayed_gradient", flat.elements),
                      s.delayed_gradient.begin());
}

DflashTrainer::~DflashTrainer() = default;

std::shared_ptr<const TokenBatch> DflashTrainer::load(const std::stop_token& stop) {
  auto batch = std::make_shared<TokenBatch>();
  if (!state_->source.next(*batch, stop)) return nullptr;
  return batch;
}

std::shared_ptr<const FeatureBatch> DflashTrainer::features(
    std::shared_ptr<const TokenBatch> batch, const std::function<bool()>& stopping) const {
  torch::NoGradGuard no_grad;
  const torch::Tensor tokens = int64_tensor(
      batch->tokens,
      {static_cast<std::int64_t>(batch->rows), static_cast<std::int64_t>(batch->length)});
  torch::Tensor features = state_->target->features(tokens, state_->session.drafter.taps, stopping);
  if (!features.defined()) fail(ErrorCode::cancelled, "stopped inside the target's forward pass");
  return std::make_shared<const FeatureBatch>(FeatureBatch{std::move(batch), std::move(features)});
}

void DflashTrainer::backward(std::uint64_t index, const FeatureBatch& item) {
  State& s = *state_;
  Replica& replica = s.replicas.at(index);
  const DraftBatch batch = draft_batch(item);
  HeadSubset subset;
  ObjectiveOptions options{.gamma = s.options.gamma, .dpace = s.options.dpace};
  if (!s.session.frequent.empty()) {
    subset = head_subset(
        s.session.drafter.target.vocab, s.session.frequent, item.batch->tokens,
        static_cast<std::int64_t>(s.options.head_drawn),
        CounterRng(s.options.seed, Draw::head_tail, {item.batch->position.rng_counter}));
    options.subset = &subset;
  }
  const ObjectiveResult result = objective(replica.drafter->forward(batch), batch, s.head, options);
  s.buckets.begin(index, result.denominator);
  result.numerator.backward();
  replica.batch = item.batch;
  replica.loss = result.numerator.item<double>();
  replica.accepted = result.accepted;
  replica.counted = result.counted;
}

void DflashTrainer::update() {
  State& s = *state_;
  const double denominator = s.buckets.finish();
  std::vector<float>& gradient = s.buckets.gradient();
  s.rate.steps = s.total_steps;
  StepLog entry{.step = steps(),
                .learning_rate = s.rate.at(steps()),
                .tokens = s.tokens,
                .position = s.position};
  Sha256 rows;
  for (const Replica& replica : s.replicas) {
    if (!replica.batch) continue;
    const TokenBatch& batch = *replica.batch;
    entry.loss += replica.loss;
    entry.tokens += batch.token_count();
    add_rows(rows, batch);
    add_to(entry.accepted, replica.accepted);
    add_to(entry.counted, replica.counted);
    if (batch.position.batch > entry.position.batch) entry.position = batch.position;
  }
  if (denominator > 0) entry.loss /= denominator;
  entry.rows_sha256 = rows.hex();
  Position position = entry.position;
  if (s.log.size() == s.log.capacity()) s.log.reserve(2 * s.log.size() + 64);
  const bool delay = s.options.grad_delay > 0;
  // The last that may throw, and then it has changed nothing.
  entry.gradient_norm =
      s.optimizer.step(delay ? s.delayed_gradient : gradient, entry.learning_rate);
  if (delay) std::swap(gradient, s.delayed_gradient);
  s.tokens = entry.tokens;
  s.position = std::move(position);
  s.log.push_back(std::move(entry));
  for (Replica& replica : s.replicas) replica.batch.reset();
  for (Replica& replica : s.replicas)
    unflatten(s.optimizer.layout(), s.optimizer.weights(), replica.drafter->parameters());
}

std::map<std::string, StageFunction> DflashTrainer::functions() {
  using Tokens = std::shared_ptr<const TokenBatch>;
  using Features = std::shared_ptr<const FeatureBatch>;
  return {{"load",
           [this](Context& context) {
             Tokens batch = load(context.stop);
             if (!batch) return false;
             context.outputs[0] = {batch, batch->bytes(), batch->position};
             return true;
           }},
          {"target",
           [this](Context& context) {
             Features item = features(context.input<Tokens>(), context.stopping);
             context.outputs[0] = {item, item->features.nbytes(), context.inputs[0].position};
             return true;
           }},
          {"drafter",
           [this](Context& context) {
             backward(context.firing.replica, *context.input<Features>());
             return true;
           }},
          {"sync", [this](Context&) {
             update();
             return true;
           }}};
}

void DflashTrainer::release_target() {
  state_->target.reset();
}
void DflashTrainer::set_total_steps(std::uint64_t steps) {
  state_->total_steps = steps;
}
std::uint64_t DflashTrainer::total_steps() const {
  return state_->total_steps;
}
std::uint64_t DflashTrainer::steps() const {
  return state_->optimizer.steps();
}
std::uint64_t DflashTrainer::tokens() const {
  return state_->tokens;
}
const Position& DflashTrainer::position() const {
  return state_->position;
}
const std::vector<StepLog>& DflashTrainer::log() const {
  return state_->log;
}
const Drafter& DflashTrainer::drafter() const {
  return *state_->replicas.front().drafter;
}

TextCounts DflashTrainer::data_counts() const {
  return state_->source.counts();
}

std::string DflashTrainer::weights_sha256() const {
  return headrace::weights_sha256(state_->optimizer.layout(), state_->optimizer.weights());
}
std::span<const float> DflashTrainer::weights() const {
  return state_->optimizer.weights();
}

CheckpointContent DflashTrainer::checkpoint() const {
  const State& s = *state_;
  CheckpointContent content{
      .step = steps(),
      .config = drafter_config_json(s.session.drafter),
      .state = {{"step", steps()},
                {"total_steps", s.total_steps},
                {"tokens", s.tokens},
                {"position", s.position},
                {"manifest", s.session.manifest},
                {"precision", to_string(s.session.precision)},
                {"options", remembered(s.options)}},
      .model = tensors_of(s.optimizer.layout(), s.optimizer.weights()),
      .optimizer = {flat_tensor("first_moment", s.optimizer.first_moment()),
                    flat_tensor("second_moment", s.optimizer.second_moment())},
      .target_sha256 = s.session.target_sha256};
  if (!s.session.frequent.empty())
    content.optimizer.push_back({"frequent_tokens",
                                 "I64",
                                 {static_cast<std::int64_t>(s.session.frequent.size())},
                                 reinterpret_cast<const std::byte*>(s.session.frequent.data()),
                                 s.session.frequent.size() * sizeof(std::int64_t)});
  if (s.options.grad_delay > 0)
    content.optimizer.push_back(flat_tensor("delayed_gradient", s.delayed_gradient));
  return content;
}

}  // namespace headrace
