#include "headrace/simulator.h"

#include <algorithm>
#include <queue>

#include "headrace/error.h"
#include "headrace/schedule.h"
#include "model/draw.h"
#include "model/steady.h"
#include "plan/graph.h"

namespace headrace {
namespace {

constexpr std::size_t none = Graph::none;

class Simulator {
 public:
  Simulator(const Plan& plan, const ScheduleText& schedule, const SimulateOptions& options)
      : plan_(plan),
        graph_(plan),
        options_(options),
        progress_(plan, schedule_edges(plan, schedule), options.steps),
        shares_(plan.stages.size()),
        work_(plan.resources.size()),
        idle_(plan.resources.size()),
        users_(plan.resources.size(), 0),
        item_bytes_(plan.stages.size()) {
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
      costs_.emplace_back(plan.stages[i], options.seed, i);
      for (std::size_t channel : graph_.stages[i].outputs)
        item_bytes_[i].push_back(plan.channels[channel].item_bytes);
      for (std::size_t resource : graph_.stages[i].uses)
        if (plan.resources[resource].kind == ResourceKind::shared) shares_[i].push_back(resource);
    }
    for (std::size_t resource = 0; resource < plan.resources.size(); ++resource) {
      const ResourceKind kind = plan.resources[resource].kind;
      if (kind == ResourceKind::device || kind == ResourceKind::host) workers_.push_back(resource);
    }
    result_.schedule = schedule.name;
  }

  Simulation run() {
    settle();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      Work& work = work_[event.owner];
      if (event.version != work.version) continue;  // rescheduled since
      now_ = event.time;
      trigger_ = work.record;
      end_work(event.owner);
      settle();
    }
    if (!progress_.done()) fail(ErrorCode::hang, "{}", wait_for_graph());
    result_.total_seconds = now_;
    summarise(step_ends_, first_done_, result_);
    result_.critical_path = critical_path();
    return std::move(result_);
  }

 private:
  // The firing that a device works on, or holds back because its outputs do not fit.
  struct Work {
    Firing firing;
    double start = 0, end = 0;  // end: once the work is done
    double left = 0;            // seconds of work at full speed, as of `updated`
    double rate = 1, updated = 0;
    std::uint64_t version = 0;
    std::size_t record = none;
    bool active = false;
  };
  struct Event {
    double time;
    std::size_t owner;
    std::uint64_t version;
    bool operator<(const Event& other) const {  // the earliest on top; ties by owner: reproducible
      return std::tie(time, owner) > std::tie(other.time, other.owner);
    }
  };
  struct Idle {
    bool waiting = false;
    double since = 0;
    WaitCause cause = WaitCause::starved;
  };
  // A firing and the one whose end let it start, for the critical path.
  struct Record {
    std::size_t stage, trigger;
  };

  // Delivers and starts whatever is possible at this moment.
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < holding_.size();) {
        if (deliver(holding_[i])) {
          holding_[i] = holding_.back();
          holding_.pop_back();
          changed = true;
        } else {
          ++i;
        }
      }
      for (std::size_t resource : workers_)
        if (const auto firing = progress_.startable(resource)) {
          start(resource, *firing);
          changed = true;
        }
    }
    for (std::uint64_t steps = progress_.steps_completed(); step_ends_.size() < steps;)
      step_ends_.push_back(now_);
    if (first_done_ == 0 && some_device_done()) first_done_ = step_ends_.size();
    if (options_.keep_spans) note_waits();
  }

  bool some_device_done() const {
    return std::any_of(workers_.begin(), workers_.end(),
                       [&](std::size_t resource) { return progress_.device_done(resource); });
  }

  void start(std::size_t owner, const Firing& firing) {
    progress_.start(firing);
    Work& work = work_[owner];
    work.firing = firing;
    work.start = work.updated = now_;
    work.left = costs_[firing.stage].draw(firing.sequence);
    work.active = true;
    work.record = records_.size();
    records_.push_back({firing.stage, trigger_});
    for (std::size_t shared : shares_[firing.stage])
      if (++users_[shared] == 2) rescale(shared, owner);
    reschedule(owner);
  }

  double rate_of(std::size_t stage) const {
    double rate = 1;
    for (std::size_t shared : shares_[stage])
      if (users_[shared] >= 2) rate /= plan_.resources[shared].slowdown;
    return rate;
  }

  // The number of users of a shared resource went to or from two: the others go on at another
  // speed.
  void rescale(std::size_t shared, std::size_t except) {
    for (std::size_t owner : workers_) {
      const Work& work = work_[owner];
      if (!work.active || owner == except) continue;
      const auto& shares = shares_[work.firing.stage];
      if (std::find(shares.begin(), shares.end(), shared) != shares.end()) reschedule(owner);
    }
  }

  void reschedule(std::size_t owner) {
    Work& work = work_[owner];
    work.left -= (now_ - work.updated) * work.rate;
    work.updated = now_;
    work.rate = rate_of(work.firing.stage);
    events_.push({now_ + std::max(work.left, 0.0) / work.rate, owner, ++work.version});
  }

  void end_work(std::size_t owner) {
    Work& work = work_[owner];
    work.active = false;
    work.end = now_;
    for (std::size_t shared : shares_[work.firing.stage])
      if (--users_[shared] == 1) rescale(shared, owner);
    holding_.push_back(owner);
    if (!options_.keep_spans) return;
    for_devices(owner, [&](std::size_t device) {
      result_.spans.push_back({work.firing.stage, device, work.firing.replica, work.firing.sequence,
                               work.firing.step, work.start, work.end});
    });
  }

  bool deliver(std::size_t owner) {
    const Work& work = work_[owner];
    const auto& bytes = item_bytes_[work.firing.stage];
    if (!progress_.can_finish(work.firing, bytes)) return false;
    progress_.finish(work.firing, bytes);
    if (options_.keep_spans && now_ > work.end)
      for_devices(owner, [&](std::size_t device) {
        result_.waits.push_back({device, work.end, now_, WaitCause::back_pressured});
      });
    return true;
  }

  template <typename Use>
  void for_devices(std::size_t owner, const Use& use) const {
    const std::size_t stage = work_[owner].firing.stage;
    if (plan_.stages[stage].replicas > 1) return use(owner);
    for (std::size_t device : graph_.stages[stage].on) use(device);
  }

  // Closes the wait of each device that works again or waits for something else, and opens new
  // ones.
  void note_waits() {
    for (std::size_t resource : workers_) {
      Idle& idle = idle_[resource];
      const bool waits = !progress_.busy(resource) && !progress_.device_done(resource);
      const WaitCause cause = waits ? progress_.wait_cause(resource) : idle.cause;
      if (waits == idle.waiting && cause == idle.cause) continue;
      if (idle.waiting && now_ > idle.since)
        result_.waits.push_back({resource, idle.since, now_, idle.cause});
      idle = {waits, now_, cause};
    }
  }

  // From a late firing back along what each had to wait for, until a stage comes round again.
  std::vector<std::string> critical_path() const {
    std::vector<std::size_t> path;  // backwards in time
    std::size_t at =
        records_.empty() ? none : records_.size() / 2;  // past the start, before the end
    for (; at != none; at = records_[at].trigger) {
      const auto seen = std::find(path.begin(), path.end(), records_[at].stage);
      if (seen != path.end()) {
        path.erase(path.begin(), seen);
        break;
      }
      path.push_back(records_[at].stage);
    }
    std::reverse(path.begin(), path.end());
    const std::vector<std::size_t> level = levels(plan_);
    std::rotate(path.begin(),
                std::min_element(
                    path.begin(), path.end(),
                    [&](auto a, auto b) { return std::tie(level[a], a) < std::tie(level[b], b); }),
                path.end());
    std::vector<std::string> names;
    for (std::size_t stage : path) names.push_back(plan_.stages[stage].name);
    return names;
  }

  std::string wait_for_graph() const {
    std::string text;
    auto add = [&](std::size_t resource, const Blocked& blocked) {
      text += fmt::format("{}{} ({}.{}, step {}) waits for {}", text.empty() ? "" : "; ",
                          plan_.resources[resource].name, plan_.stages[blocked.firing.stage].name,
                          blocked.firing.replica, blocked.firing.step, blocked.waits_for);
    };
    for (std::size_t owner : holding_) {
      const Firing& firing = work_[owner].firing;
      add(owner, progress_.back_pressure(firing, item_bytes_[firing.stage]));
    }
    for (std::size_t resource : workers_)
      if (!progress_.busy(resource) && !progress_.device_done(resource))
        add(resource, progress_.blocked(resource));
    return text;
  }

  const Plan& plan_;
  const Graph graph_;
  const SimulateOptions options_;
  Progress progress_;
  std::vector<CostDraw> costs_;                         // of each stage
  std::vector<std::vector<std::size_t>> shares_;        // of each stage: shared resources
  std::vector<std::size_t> workers_;                    // devices and hosts
  std::vector<Work> work_;                              // of each resource, as owner
  std::vector<Idle> idle_;                              // of each resource
  std::vector<std::uint64_t> users_;                    // of each shared resource
  std::vector<std::vector<std::uint64_t>> item_bytes_;  // of each stage: of its outputs
  std::vector<std::size_t> holding_;                    // owners whose outputs do not fit yet
  std::priority_queue<Event> events_;
  std::vector<Record> records_;
  std::vector<double> step_ends_;
  std::size_t first_done_ = 0;  // steps completed when the first device ran out of work
  std::size_t trigger_ = none;
  double now_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Plan& plan, const ScheduleText& schedule,
                    const SimulateOptions& options) {
  if (options.steps == 0)
    fail(ErrorCode::bad_input, "a simulation of 0 steps; simulated sources do not end: ask for 1");
  const double fastest = bound(plan);  // refuses what is invalid, and stages without a cost
  Simulation simulation = Simulator(plan, schedule, options).run();
  simulation.bound_seconds = fastest;
  return simulation;
}

}  // namespace headrace
