// One firing of an Executor: inputs, function, outputs, and what went wrong.
#include <algorithm>
#include <utility>

#include "flow/executor_state.h"

namespace headrace {
namespace {

// "batch 17 of epoch 0 (shard 2, row 5 of manifest 1f2e3d4c)": batches are counted from 1, and the
// rest says where the next one begins.
std::string words(const Position& position) {
  return fmt::format("batch {} of epoch {} (shard {}, row {} of manifest {:.8})", position.batch,
                     position.epoch, position.shard, position.row, position.manifest);
}

}  // namespace

void Executor::State::fire(Lock& lock, Worker& worker, const Firing& firing) {
  take_inputs(worker, firing);
  release(lock, worker);

  worker.context.outputs.clear();
  worker.context.outputs.resize(graph.stages[firing.stage].outputs.size());
  const Clock::time_point start = replan ? Clock::now() : Clock::time_point();
  const bool more = functions[firing.stage](worker.context);
  const Clock::time_point end = replan ? Clock::now() : Clock::time_point();
  worker.context.inputs.clear();
  acquire(lock);

  check_outputs(worker, more);
  if (replan && more) note_cost(worker, end - start);
  if (more) return deliver(lock, worker);
  // To look for a batch that is not there is no work on one.
  for (const std::size_t resource : held_by(firing)) timeline->amend(resource, {.cause = "host"});
  give_up(worker);
}

void Executor::State::take_inputs(Worker& worker, const Firing& firing) {
  worker.phase = Phase::books;
  ++changes;
  progress.start(firing);
  for (const std::size_t resource : held_by(firing)) running[resource] = &worker;
  Context& context = worker.context;
  context.firing = firing;
  context.inputs.clear();
  worker.position.manifest.clear();
  for (const std::size_t channel : graph.stages[firing.stage].inputs) {
    context.inputs.push_back(std::move(items[channel].front()));
    items[channel].pop_front();
    const Position& position = context.inputs.back().position;
    if (worker.position.manifest.empty() && !position.manifest.empty()) worker.position = position;
  }
  worker.phase = Phase::works;
}

void Executor::State::check_outputs(Worker& worker, bool more) const {
  const std::size_t stage = worker.context.firing.stage;
  const std::size_t given = worker.context.outputs.size(),
                    wanted = graph.stages[stage].outputs.size();
  if (!more && !graph.is_source(stage))
    fail(ErrorCode::internal, "returned false, but only a source ends the stream");
  if (more && given != wanted)
    fail(ErrorCode::internal, "gave {} outputs for {} channels", given, wanted);
  worker.bytes.clear();
  for (const Item& output : worker.context.outputs) worker.bytes.push_back(output.bytes);
}

bool Executor::State::must_wait(const Worker& worker) const {
  const Firing& firing = worker.context.firing;
  return !failed_before(firing) && !progress.can_finish(firing, worker.bytes);
}

void Executor::State::deliver(Lock& lock, Worker& worker) {
  const Firing& firing = worker.context.firing;
  while (must_wait(worker) && !stopped()) {
    worker.phase = Phase::delivers;
    sleep(lock, worker);
  }
  if (failed_before(firing) || must_wait(worker)) return give_up(worker);

  worker.phase = Phase::books;
  std::vector<Item>& outputs = worker.context.outputs;
  const std::vector<std::size_t>& channels = graph.stages[firing.stage].outputs;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    if (worker.position.manifest.empty() && !outputs[i].position.manifest.empty())
      worker.position = outputs[i].position;
    if (!progress.drops(channels[i])) items[channels[i]].push_back(std::move(outputs[i]));
  }
  progress.finish(firing, worker.bytes);
  if (!worker.position.manifest.empty() && worker.position.batch >= reached[firing.stage].batch)
    std::swap(reached[firing.stage], worker.position);
  let_go(worker);
}

void Executor::State::give_up(Worker& worker) {
  if (!stopped()) {
    worker.phase = Phase::books;
    progress.end_of_stream(worker.context.firing);
  }
  let_go(worker);
}

void Executor::State::handle_failure(Lock& lock, Worker& worker) {
  const Firing firing = worker.context.firing;
  const Error failure = caught([&] { return place_of(worker); });
  const bool gave_up = stopped() && failure.code() == ErrorCode::cancelled;
  const bool source = graph.is_source(firing.stage);
  if (!gave_up) fail_with(lock, failure, !source);
  if (!source) return let_go(worker);
  worker.phase = Phase::books;
  failed_at.try_emplace(firing.stage, firing.sequence);
  give_up(worker);
}

bool Executor::State::failed_before(const Firing& firing) const {
  const auto failed = failed_at.find(firing.stage);
  return failed != failed_at.end() && failed->second < firing.sequence;
}

void Executor::State::let_go(Worker& worker) {
  for (const std::size_t resource : held_by(worker.context.firing)) running[resource] = nullptr;
  ++changes;
  worker.phase = Phase::idle;
}

std::string Executor::State::place_of(const Worker& worker) const {
  const Firing& firing = worker.context.firing;
  std::string place = fmt::format("stage {}, replica {}, step {}", plan.stages[firing.stage].name,
                                  firing.replica, firing.step);
  if (!worker.position.manifest.empty())
    place += ", " + words(worker.position);
  else if (const Position* before = reached_before(firing.stage))
    place += ", after " + words(*before);
  return place;
}

// Of a stage without inputs: how far it had come itself, or those that it comes after in its step.
const Position* Executor::State::reached_before(std::size_t stage) const {
  const Position* furthest = nullptr;
  const auto consider = [&](const Position& position) {
    if (!position.manifest.empty() && (furthest == nullptr || position.batch > furthest->batch))
      furthest = &position;
  };
  consider(reached[stage]);
  for (const Graph::After& after : graph.stages[stage].after)
    if (after.lag == 0) consider(reached[after.stage]);
  return furthest;
}

}  // namespace headrace
