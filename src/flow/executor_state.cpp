#include "flow/executor_state.h"

#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "flow/wait_graph.h"
#include "plan/validate.h"

namespace headrace {
namespace {

std::vector<StageFunction> by_stage(const Plan& plan,
                                    std::map<std::string, StageFunction> functions) {
  std::vector<StageFunction> result;
  for (const Stage& stage : plan.stages) {
    StageFunction& function = functions[stage.name];
    if (!function)
      fail(ErrorCode::bad_input, "plan {}: stage {} has no function", plan.name, stage.name);
    result.push_back(std::move(function));
    functions.erase(stage.name);
  }
  if (!functions.empty())
    fail(ErrorCode::bad_input, "plan {}: a function is given for {}, which is no stage", plan.name,
         functions.begin()->first);
  return result;
}

}  // namespace

Error seen_from(const std::string& context) {
  try {
    throw;
  } catch (const Error& error) {
    return error.in(context);
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::resource, context + ": out of memory");
  } catch (const std::exception& error) {
    return Error(ErrorCode::internal, context + ": " + error.what());
  } catch (...) {
    return Error(ErrorCode::internal, context + ": an exception that is no std::exception");
  }
}

Executor::State::State(Plan plan_, const ScheduleText& schedule,
                       std::map<std::string, StageFunction> functions_, ExecutorOptions options_,
                       Recorder* recorder_)
    : plan(validated(std::move(plan_))),
      graph(plan),
      options(std::move(options_)),
      recorder(recorder_),
      functions(by_stage(plan, std::move(functions_))),
      progress(plan, schedule_edges(plan, schedule), options.steps),
      holds(plan.stages.size()),
      items(plan.channels.size()),
      running(plan.resources.size(), nullptr) {
  check_runs(plan, schedule_edges(plan, schedule));
  std::set<std::size_t> owners;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const std::vector<std::size_t>& on = graph.stages[stage].on;
    const std::uint64_t replicas = plan.stages[stage].replicas;
    for (std::uint64_t replica = 0; replica < replicas; ++replica) {
      holds[stage].push_back(replicas == 1 ? on : std::vector{on[replica]});
      owners.insert(holds[stage].back().front());
    }
  }
  for (const std::size_t resource : owners) workers.emplace_back().resource = resource;
  for (const auto& [name, cores] : options.cores)
    if (std::none_of(plan.resources.begin(), plan.resources.end(),
                     [&name = name](const Resource& resource) { return resource.name == name; }))
      fail(ErrorCode::bad_input, "plan {}: cores are given for {}, which is no resource", plan.name,
           name);
}

void Executor::State::begin() {
  const Lock lock(mutex);
  if (std::exchange(began, true)) fail(ErrorCode::internal, "an Executor runs once");
  std::vector<std::optional<std::uint32_t>> lanes(plan.resources.size());
  const std::vector<std::string> devices =
      recorder != nullptr ? recorder->header().devices : std::vector<std::string>();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const auto device = std::find(devices.begin(), devices.end(), plan.resources[i].name);
    if (device != devices.end()) lanes[i] = static_cast<std::uint32_t>(device - devices.begin());
  }
  timeline.emplace(recorder, lanes, now_ns());
  moved();
}

Outcome Executor::State::end() {
  const Lock lock(mutex);
  timeline->finish(now_ns());
  if (error) throw *error;
  return progress.done() ? Outcome::finished : Outcome::stopped;
}

void Executor::State::request_stop() {
  stop.request_stop();
  // With the lock, so that no worker is between its look at the stop source and its wait.
  const Lock lock(mutex);
  changed.notify_all();
}

void Executor::State::refuse_to_start(const char* why) {
  Lock lock(mutex);
  fail_with(
      lock,
      Error(ErrorCode::resource, fmt::format("cannot start the {} worker threads of plan {}: {}",
                                             workers.size(), plan.name, why)),
      true);
}

void Executor::State::work(Worker& worker) {
  const Resource& resource = plan.resources[worker.resource];
  worker.wait.install();
  Lock lock(mutex, std::defer_lock);
  try {
    name_thread(resource.name);
    const auto cores = options.cores.find(resource.name);
    if (cores != options.cores.end()) pin_to(cores->second);
    if (resource.kind == ResourceKind::host) lower_priority();
    if (options.on_worker_start) options.on_worker_start(resource.name);
    lock.lock();
  } catch (...) {
    lock.lock();
    fail_with(lock, seen_from("worker of " + resource.name), true);
  }
  serve(lock, worker);
}

void Executor::State::serve(Lock& lock, Worker& worker) {
  while (!stopped() && !progress.device_done(worker.resource)) {
    const std::optional<Firing> firing = progress.startable(worker.resource);
    if (!firing) {
      changed.wait(lock);
      continue;
    }
    Running self{.firing = *firing, .worker = &worker};
    try {
      fire(lock, self);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      handle_failure(lock, *firing);
    }
    report_steps(lock);
  }
}

void Executor::State::fire(Lock& lock, Running& self) {
  const Firing& firing = self.firing;
  for (const std::size_t resource : held_by(firing)) running[resource] = &self;
  Context context = take_inputs(firing);
  moved();

  lock.unlock();
  const bool more = functions[firing.stage](context);
  context.inputs.clear();
  lock.lock();

  const Stage& stage = plan.stages[firing.stage];
  if (!more && !graph.is_source(firing.stage))
    fail(ErrorCode::internal, "returned false, but only a source ends the stream");
  if (more && context.outputs.size() != stage.outputs.size())
    fail(ErrorCode::internal, "gave {} outputs for {} channels", context.outputs.size(),
         stage.outputs.size());
  if (more && deliver(lock, self, std::move(context.outputs))) return;
  if (!more) {
    // To look for a batch that is not there is no work on one.
    for (const std::size_t resource : held_by(firing))
      timeline->amend(resource, {.kind = SpanKind::wait, .cause = "host"});
  }
  if (!stopped()) progress.end_of_stream(firing);
  let_go(firing);
}

Context Executor::State::take_inputs(const Firing& firing) {
  const Graph::Node& node = graph.stages[firing.stage];
  const std::vector<std::uint64_t> sequences = progress.start(firing);
  Context context;
  context.firing = firing;
  context.outputs.resize(node.outputs.size());
  context.stop = stop.get_token();
  context.stopping = [token = context.stop] { return token.stop_requested(); };
  for (std::size_t i = 0; i < sequences.size(); ++i)
    context.inputs.push_back(std::move(items[node.inputs[i]].extract(sequences[i]).mapped()));
  return context;
}

bool Executor::State::deliver(Lock& lock, Running& self, std::vector<Item> outputs) {
  const Firing& firing = self.firing;
  for (const Item& output : outputs) self.bytes.push_back(output.bytes);
  const auto must_wait = [&] {
    return !failed_before(firing) && !progress.can_finish(firing, self.bytes);
  };
  if (must_wait()) {
    self.delivers = true;
    moved();
    while (must_wait() && !stopped()) changed.wait(lock);
    if (must_wait()) return false;
  }
  if (failed_before(firing)) return false;
  const std::vector<std::size_t>& channels = graph.stages[firing.stage].outputs;
  std::vector<std::uint64_t> before;
  for (const std::size_t channel : channels) before.push_back(progress.items_in(channel));
  progress.finish(firing, self.bytes);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    // A channel whose consumer has ended drops what comes.
    if (progress.items_in(channels[i]) > before[i])
      items[channels[i]].emplace(firing.sequence, std::move(outputs[i]));
  }
  let_go(firing);
  return true;
}

void Executor::State::handle_failure(Lock& lock, const Firing& firing) {
  const Stage& stage = plan.stages[firing.stage];
  const Error failure = seen_from(
      fmt::format("stage {}, replica {}, step {}", stage.name, firing.replica, firing.step));
  const bool gave_up = stopped() && failure.code() == ErrorCode::cancelled;
  const bool source = graph.is_source(firing.stage);
  if (!gave_up) fail_with(lock, failure, !source);
  if (source && !stopped()) {
    failed_at.try_emplace(firing.stage, firing.sequence);
    progress.end_of_stream(firing);
  }
  let_go(firing);
}

bool Executor::State::failed_before(const Firing& firing) const {
  const auto failed = failed_at.find(firing.stage);
  return failed != failed_at.end() && failed->second < firing.sequence;
}

void Executor::State::let_go(const Firing& firing) {
  for (const std::size_t resource : held_by(firing)) running[resource] = nullptr;
  moved();
}

// One worker at a time reports, and goes on as long as others complete steps: in order, each once.
void Executor::State::report_steps(Lock& lock) {
  if (!options.on_step || reporting) return;
  reporting = true;
  try {
    while (steps_reported < progress.steps_completed()) {
      const std::uint64_t step = steps_reported++;
      lock.unlock();
      options.on_step(step);
      lock.lock();
      ++changes;
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    const std::uint64_t step = std::exchange(steps_reported, UINT64_MAX) - 1;  // no further report
    fail_with(lock, seen_from(fmt::format("after step {}", step)), true);
  }
  reporting = false;
}

void Executor::State::fail_with(Lock& lock, const Error& failure, bool stops) {
  if (!error) error = failure;
  if (!stops) return;
  lock.unlock();
  stop.request_stop();
  lock.lock();
  changed.notify_all();
}

const std::vector<std::size_t>& Executor::State::held_by(const Firing& firing) const {
  return holds[firing.stage][firing.replica];
}

}  // namespace headrace
