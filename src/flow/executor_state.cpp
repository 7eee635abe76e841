#include "flow/executor_state.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "flow/replan_plan.h"
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

// Looks worth taking before a sleep: with one core nothing comes while one looks.
int looks() {
  static const int count = std::thread::hardware_concurrency() > 1 ? 50 : 1;
  return count;
}

// Waits for what another core may bring sooner than the system would wake a thread, for a few
// microseconds at most. It never yields: on a busy machine a turn given away comes back after
// milliseconds, where a sleeper is woken at once.
template <typename Arrived>
bool comes_soon(const Arrived& arrived) {
  if (arrived()) return true;
  for (int look = 1; look < looks(); ++look) {
    RealSync::relax(1);
    if (arrived()) return true;
  }
  return false;
}

}  // namespace

Executor::State::State(const Plan& plan_, const ScheduleText& schedule,
                       std::map<std::string, StageFunction> functions_, ExecutorOptions options_,
                       Recorder* recorder_)
    : plan(options_.replan.after_steps > 0 ? with_spare_workers(plan_, options_.replan)
                                           : validated(plan_)),
      graph(plan),
      options(std::move(options_)),
      recorder(recorder_),
      functions(by_stage(plan, std::move(functions_))),
      progress(plan, schedule_edges(plan, schedule), options.steps),
      out_of_memory(ErrorCode::resource, fmt::format("plan {}: out of memory", plan.name)),
      holds(plan.stages.size()),
      items(plan.channels.size()),
      running(plan.resources.size(), nullptr),
      reached(plan.stages.size()) {
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
  const std::size_t given = plan_.resources.size();
  for (std::size_t spare = given; spare < plan.resources.size(); ++spare) owners.insert(spare);
  for (const std::size_t resource : owners) {
    Worker& worker = workers.emplace_back();
    worker.resource = resource;
    worker.spare = resource >= given;
    if (worker.spare) worker.phase = Phase::left;
    worker.to_wake.reserve(owners.size());
    worker.context.stop = stop.get_token();
    worker.context.stopping = [token = stop.get_token()] { return token.stop_requested(); };
  }
  if (options.replan.after_steps > 0) {
    replan.emplace();
    replan->plan = plan_;
    replan->schedule = schedule;
    replan->costs.resize(plan.stages.size());
    replan->noted.resize(plan.stages.size());
    replan->largest.resize(plan.channels.size());
  }
  for (const auto& [name, cores] : options.cores)
    if (std::none_of(plan.resources.begin(), plan.resources.end(),
                     [&name = name](const Resource& resource) { return resource.name == name; }))
      fail(ErrorCode::bad_input, "plan {}: cores are given for {}, which is no resource", plan.name,
           name);
}

void Executor::State::begin() try {
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
  note_activities();
} catch (const std::bad_alloc&) {
  throw out_of_memory;
}

Outcome Executor::State::end() {
  Lock lock(mutex);
  try {
    timeline->finish(now_ns());
    if (replan) close_replan();
  } catch (...) {
    fail_with(lock, caught([] { return std::string("the end of the trace"); }), false);
  }
  if (error) throw *error;
  return progress.done() ? Outcome::finished : Outcome::stopped;
}

void Executor::State::request_stop() {
  stop.request_stop();
  // With the lock, so that no worker is between its look at the stop source and its sleep.
  const Lock lock(mutex);
  wake_all();
}

void Executor::State::refuse_to_start(const std::exception& why) noexcept {
  Lock lock(mutex);
  try {
    fail_with(lock,
              Error(ErrorCode::resource,
                    fmt::format("cannot start the threads of plan {}: {}", plan.name, why.what())),
              true);
  } catch (...) {  // no memory for the words
    fail_with(lock, out_of_memory, true);
  }
}

void Executor::State::work(Worker& worker) noexcept {
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
    worker.phase = Phase::idle;
    serve(lock, worker);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    fail_with(lock, caught([&] { return "worker of " + resource.name; }), true);
  }
  std::replace(running.begin(), running.end(), &worker, static_cast<Worker*>(nullptr));
  worker.phase = Phase::left;
}

void Executor::State::serve(Lock& lock, Worker& worker) {
  while (!stopped() && !finished(worker)) {
    const std::optional<Firing> firing = progress.startable(worker.resource);
    if (!firing) {
      sleep(lock, worker);
      continue;
    }
    try {
      fire(lock, worker, *firing);
    } catch (...) {
      if (!lock.owns_lock()) {
        worker.context.inputs.clear();
        lock.lock();
      }
      if (worker.phase == Phase::books) throw;
      handle_failure(lock, worker);
    }
    if (replan) note_steps();
    report_steps(lock, worker);
  }
  release(lock, worker);
  acquire(lock);
}

void Executor::State::sleep(Lock& lock, Worker& worker) {
  worker.asleep = true;
  release(lock, worker);
  if (!comes_soon([&] { return !worker.asleep; }))
    while (worker.asleep) worker.parker.park(std::nullopt);
  acquire(lock);
}

void Executor::State::acquire(Lock& lock) const {
  if (!comes_soon([&] { return lock.try_lock(); })) lock.lock();
}

void Executor::State::release(Lock& lock, Worker& self) {
  note_activities();
  self.to_wake.clear();
  for (Worker& worker : workers)
    if (worker.asleep && may_go_ahead(worker)) {
      worker.asleep = false;
      self.to_wake.push_back(&worker);
    }
  lock.unlock();
  for (Worker* worker : self.to_wake) worker->parker.unpark();
}

bool Executor::State::may_go_ahead(const Worker& worker) const {
  if (stopped()) return true;
  if (worker.phase == Phase::delivers) return !must_wait(worker);
  return finished(worker) || progress.startable(worker.resource);
}

bool Executor::State::finished(const Worker& worker) const {
  return progress.device_done(worker.resource) && !(worker.spare && replan->opening);
}

void Executor::State::wake_all() {
  for (Worker& worker : workers)
    if (worker.asleep.exchange(false)) worker.parker.unpark();
}

// One worker at a time reports, and goes on as long as others complete steps: in order, each once.
void Executor::State::report_steps(Lock& lock, Worker& worker) {
  if (!options.on_step || reporting) return;
  reporting = true;
  try {
    while (steps_reported < progress.steps_completed()) {
      const std::uint64_t step = steps_reported++;
      release(lock, worker);
      options.on_step(step);
      acquire(lock);
      ++changes;
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    const std::uint64_t step = std::exchange(steps_reported, UINT64_MAX) - 1;  // no further report
    fail_with(lock, caught([&] { return fmt::format("after step {}", step); }), true);
  }
  reporting = false;
}

void Executor::State::fail_with(Lock& lock, const Error& failure, bool stops) {
  if (!error) error = failure;
  if (!stops) return;
  lock.unlock();
  stop.request_stop();
  lock.lock();
  wake_all();
}

const std::vector<std::size_t>& Executor::State::held_by(const Firing& firing) const {
  return holds[firing.stage][firing.replica];
}

}  // namespace headrace
