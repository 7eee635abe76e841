// What the workers of an Executor share.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "flow/timeline.h"
#include "headrace/error.h"
#include "headrace/executor.h"
#include "headrace/thread.h"
#include "plan/graph.h"

namespace headrace {

// The exception in flight (call in a catch block) as an Error that says where it came from.
Error seen_from(const std::string& context);

// One mutex guards everything but what is const and the stop source. Every change wakes all that
// wait, because one finished firing can let any device start.
struct Executor::State {
  using Lock = std::unique_lock<std::mutex>;

  // The thread of one device or host resource that owns stages.
  struct Worker {
    std::size_t resource;
    ThreadWait wait;
  };

  // A firing that has started and holds its devices.
  struct Running {
    Firing firing;
    Worker* worker;
    std::vector<std::uint64_t> bytes;  // of its outputs, once it delivers
    bool delivers = false;             // its function has returned, its outputs do not fit yet
  };

  State(Plan plan, const ScheduleText& schedule, std::map<std::string, StageFunction> functions,
        ExecutorOptions options, Recorder* recorder);

  void begin();   // the clock of the run
  Outcome end();  // after all workers have joined: throws the first error
  void request_stop();
  void refuse_to_start(const char* why);  // the system gives no further thread

  // A worker's life: starts what may start on its resource until nothing is left or the run stops.
  void work(Worker& worker);

  // For the watchdog; both lock. stuck(): nothing while something works, else a number that changes
  // with progress.
  std::optional<std::uint64_t> stuck();
  void report_hang();
  std::string wait_for_graph() const;  // the caller locks

  const Plan plan;
  const Graph graph;
  const ExecutorOptions options;
  Recorder* const recorder;
  const std::vector<StageFunction> functions;  // by stage

  mutable std::mutex mutex;
  std::condition_variable changed;
  Progress progress;
  std::deque<Worker> workers;  // does not move its elements

 private:
  void serve(Lock& lock, Worker& worker);
  // The steps of one firing; `self` stays where it is until let_go().
  void fire(Lock& lock, Running& self);
  Context take_inputs(const Firing& firing);
  // Waits until the outputs fit, and delivers them. False where the run stopped, or the stage
  // failed at an earlier firing, before that.
  bool deliver(Lock& lock, Running& self, std::vector<Item> outputs);
  void handle_failure(Lock& lock, const Firing& firing);  // in a catch block
  void let_go(const Firing& firing);                      // of its devices
  void report_steps(Lock& lock);
  // Keeps the first error. Lets go of the lock while it stops the run, because stop callbacks of
  // stages may do anything.
  void fail_with(Lock& lock, const Error& failure, bool stops);

  const std::vector<std::size_t>& held_by(const Firing& firing) const;
  bool failed_before(const Firing& firing) const;
  bool stopped() const { return stop.stop_requested(); }
  std::int64_t now_ns() const { return recorder != nullptr ? recorder->now_ns() : 0; }
  // After each change: writes into the timeline what every device does from now on, wakes who
  // waits.
  void moved();
  Span activity(std::size_t resource) const;

  std::vector<std::vector<std::vector<std::size_t>>> holds;  // by stage and replica: resources
  std::vector<std::map<std::uint64_t, Item>> items;          // by channel, by sequence number
  std::vector<Running*> running;                             // by resource
  std::map<std::size_t, std::uint64_t> failed_at;  // source stage: the sequence of its error
  std::optional<Timeline> timeline;
  std::stop_source stop;
  std::optional<Error> error;  // the first
  std::uint64_t changes = 0;   // grows with all progress
  std::uint64_t steps_reported = 0;
  bool reporting = false;  // some worker is in on_step
  bool began = false;
};

}  // namespace headrace
