// What the workers of an Executor share.
#pragma once

#include <atomic>
#include <chrono>
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
#include "headrace/sync.h"
#include "headrace/thread.h"
#include "plan/graph.h"

namespace headrace {

// One mutex guards everything but what is const or atomic and the stop source.
//
// Who sleeps: a worker goes to sleep, under the mutex, only where it may not go ahead. Who wakes:
// whoever lets go of the mutex after a change looks which sleepers may go ahead now, and wakes
// those. So whenever the mutex is free, nobody sleeps who may go ahead, and a change that lets
// nobody go ahead wakes nobody.
struct Executor::State {
  using Lock = std::unique_lock<std::mutex>;

  enum class Phase {
    idle,      // between firings
    books,     // changes Progress and the channels: what fails here leaves them in no known state
    works,     // in its stage's function
    delivers,  // the function has returned, its outputs do not fit yet
    left,      // its thread has ended
  };

  // The thread of one device or host resource that owns stages, with the firing at hand.
  struct Worker {
    std::size_t resource = 0;
    ThreadWait wait;
    RealSync::Parker parker;
    std::atomic<bool> asleep = false;
    bool spare = false;            // gets a thread and work only from re-planning
    std::vector<Worker*> to_wake;  // once it has let go of the mutex; never grows

    Phase phase = Phase::idle;
    Context context;
    std::vector<std::uint64_t> bytes;  // of its outputs
    Position position;                 // of its first input that has one
  };

  using Clock = std::chrono::steady_clock;

  // Completed steps and their times: the mean between the first and the last of them.
  struct Stretch {
    std::uint64_t first = 0, last = 0;
    Clock::time_point first_time, last_time;
    void add(std::uint64_t steps, Clock::time_point now);
    double step_seconds() const;  // 0: unknown
  };

  // What re-planning measures and decides; see executor_replan.cpp.
  struct Replan {
    Plan plan;  // as given, without spare workers
    ScheduleText schedule;
    std::vector<std::vector<double>> costs;     // by stage: seconds of the latest firings
    std::vector<std::uint64_t> noted, largest;  // by stage: firings; by channel: bytes of an item
    std::uint64_t steps = 0;                    // completed, as far as was noticed
    std::uint64_t settled_at = 0;               // steps after which deeper channels have filled
    Stretch before, after;
    bool due = false;      // all is measured
    bool opening = false;  // spare workers have threads, and no work yet
    bool ready = false;    // `outcome` is to be applied at the next step's end
    ReplanOutcome outcome;
    std::condition_variable_any changed;
  };

  State(const Plan& plan, const ScheduleText& schedule,
        std::map<std::string, StageFunction> functions, ExecutorOptions options,
        Recorder* recorder);

  void begin();   // the clock of the run; what fails here fails before any thread
  Outcome end();  // after all workers have joined: throws the first error
  void request_stop();
  void refuse_to_start(const std::exception& why) noexcept;  // no further thread or memory

  // A worker's life: starts what may start on its resource until nothing is left or the run stops.
  void work(Worker& worker) noexcept;

  // For the watchdog; both lock. stuck(): nothing while something works, else a number that changes
  // with progress.
  std::optional<std::uint64_t> stuck() noexcept;
  void report_hang() noexcept;
  std::string wait_for_graph() const;  // the caller locks

  // For its own thread: waits until all is measured, asks the model, and starts further workers.
  // Returns once `ended` is asked to stop and these have ended.
  void replan_when_due(const std::stop_token& ended) noexcept;

  Plan plan;  // what re-planning changes of it, only code under the mutex reads
  const Graph graph;
  const ExecutorOptions options;
  Recorder* const recorder;
  const std::vector<StageFunction> functions;  // by stage

  mutable std::mutex mutex;
  Progress progress;
  std::deque<Worker> workers;  // does not move its elements
  std::optional<Replan> replan;

 private:
  void serve(Lock& lock, Worker& worker);
  // Until the worker may go ahead, or was woken to look again.
  void sleep(Lock& lock, Worker& worker);
  void acquire(Lock& lock) const;
  // Lets go of the mutex after changes: writes into the timeline what every device does from now
  // on, and wakes whoever may go ahead.
  void release(Lock& lock, Worker& worker);
  bool may_go_ahead(const Worker& worker) const;
  bool finished(const Worker& worker) const;  // nothing will be left for it, ever
  void wake_all();                            // the caller locks

  void fire(Lock& lock, Worker& worker, const Firing& firing);
  void take_inputs(Worker& worker, const Firing& firing);
  void check_outputs(Worker& worker, bool more) const;
  // Waits until the outputs fit, and delivers them, unless the run stopped, or the stage failed at
  // an earlier firing, before that.
  void deliver(Lock& lock, Worker& worker);
  bool must_wait(const Worker& worker) const;
  void give_up(Worker& worker);  // the firing is not counted: the stream ends, or the run stops
  void handle_failure(Lock& lock, Worker& worker);  // in a catch block
  void let_go(Worker& worker);                      // of its devices
  void report_steps(Lock& lock, Worker& worker);
  void note_cost(const Worker& worker, Clock::duration time);
  void note_steps();  // after each firing: applies what is ready at a step's end
  void apply_replan();
  void close_replan();
  Plan measured_plan() const;
  // Keeps the first error. Lets go of the lock while it stops the run, because stop callbacks of
  // stages may do anything.
  void fail_with(Lock& lock, const Error& failure, bool stops);
  // The exception in flight (in a catch block) as an Error that says where it came from.
  template <typename Describe>
  Error caught(const Describe& where) const noexcept;

  // "stage drafter, replica 1, step 7, batch 17 of epoch 0 (shard 2, row 5 of manifest 1f2e)".
  std::string place_of(const Worker& worker) const;
  const Position* reached_before(std::size_t stage) const;

  const std::vector<std::size_t>& held_by(const Firing& firing) const;
  bool failed_before(const Firing& firing) const;
  bool stopped() const { return stop.stop_requested(); }
  std::int64_t now_ns() const { return recorder != nullptr ? recorder->now_ns() : 0; }
  void note_activities();
  Activity activity(std::size_t resource) const;

  const Error out_of_memory;                                 // made before memory can run out
  std::vector<std::vector<std::vector<std::size_t>>> holds;  // by stage and replica: resources
  std::vector<std::deque<Item>> items;  // by channel: in the order in which Progress takes them
  std::vector<Worker*> running;         // by resource: whose firing holds it
  std::vector<Position> reached;        // by stage: of the latest batch that it has let go of
  std::map<std::size_t, std::uint64_t> failed_at;  // source stage: the sequence of its error
  std::optional<Timeline> timeline;
  std::stop_source stop;
  std::optional<Error> error;  // the first
  std::uint64_t changes = 0;   // grows with all progress
  std::uint64_t steps_reported = 0;
  bool reporting = false;  // some worker is in on_step
  bool began = false;
};

template <typename Describe>
Error Executor::State::caught(const Describe& where) const noexcept {
  try {
    return headrace::caught(where());
  } catch (...) {  // no memory for the words
    return out_of_memory;
  }
}

}  // namespace headrace
