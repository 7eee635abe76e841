#include "headrace/accounting.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "headrace/error.h"

namespace headrace {
namespace {

// What a moment counts as, the first of several that hold. `host` also where nothing does.
enum class State { busy, starved, back_pressured, synchronising, host };

State state_of(const Span& span) {
  if (span.kind != SpanKind::wait) return State::busy;
  if (span.cause == "starved") return State::starved;
  if (span.cause == "back_pressured") return State::back_pressured;
  if (span.cause == "synchronising") return State::synchronising;
  return State::host;
}

// The steps of waits do not matter: 0.
using Key = std::pair<State, std::uint64_t>;

struct Boundary {
  std::int64_t at_ns;
  bool opens;
  Key key;
};

void charge(DeviceAccount& account, const Key& key, std::int64_t ns) {
  switch (key.first) {
    case State::busy:
      account.busy_ns += ns;
      account.busy_ns_by_step[key.second] += ns;
      return;
    case State::starved:
      account.starved_ns += ns;
      return;
    case State::back_pressured:
      account.back_pressured_ns += ns;
      return;
    case State::synchronising:
      account.synchronising_ns += ns;
      return;
    case State::host:
      account.host_ns += ns;
      return;
  }
}

// Sweeps over the boundaries of one device's spans with the set of those that are open.
void sweep(DeviceAccount& account, std::vector<Boundary> boundaries, std::int64_t first_busy_ns,
           std::int64_t last_busy_ns) {
  std::sort(boundaries.begin(), boundaries.end(),
            [](const Boundary& a, const Boundary& b) { return a.at_ns < b.at_ns; });
  std::multiset<Key> open;
  std::int64_t swept_ns = first_busy_ns;
  for (const Boundary& boundary : boundaries) {
    const std::int64_t upto_ns = std::clamp(boundary.at_ns, first_busy_ns, last_busy_ns);
    if (upto_ns > swept_ns)
      charge(account, open.empty() ? Key(State::host, 0) : *open.begin(), upto_ns - swept_ns);
    swept_ns = std::max(swept_ns, upto_ns);
    if (boundary.opens) {
      open.insert(boundary.key);
    } else {
      open.erase(open.find(boundary.key));
    }
  }
}

}  // namespace

double Accounting::share(std::int64_t ns) const {
  return host_span_ns() > 0 ? static_cast<double>(ns) / static_cast<double>(host_span_ns()) : 0.0;
}

std::int64_t Accounting::median_step_ns() const {
  std::vector<std::int64_t> intervals;
  for (auto step = step_ends_ns.begin(); step != step_ends_ns.end(); ++step)
    if (const auto following = std::next(step); following != step_ends_ns.end())
      intervals.push_back(following->second - step->second);
  if (intervals.empty()) return 0;
  const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(intervals.size() / 2);
  std::nth_element(intervals.begin(), middle, intervals.end());
  return *middle;
}

Accounting account(const TraceHeader& header, const std::vector<Span>& spans) {
  Accounting result;
  std::vector<std::vector<Boundary>> boundaries(header.devices.size());
  for (const Span& span : spans) {
    if (span.device >= header.devices.size() || span.end_ns < span.start_ns)
      fail(ErrorCode::bad_input,
           "a span of stage {} on device {} of {} from {} ns to {} ns cannot be", span.stage,
           span.device, header.devices.size(), span.start_ns, span.end_ns);
    const bool first = &span == spans.data();
    result.start_ns = first ? span.start_ns : std::min(result.start_ns, span.start_ns);
    result.end_ns = first ? span.end_ns : std::max(result.end_ns, span.end_ns);
    if (span.end_ns == span.start_ns) continue;
    const State state = state_of(span);
    const Key key(state, state == State::busy ? span.step : 0);
    if (state == State::busy && span.device + header.host_threads < header.devices.size()) {
      const auto end = result.step_ends_ns.try_emplace(span.step, span.end_ns).first;
      end->second = std::max(end->second, span.end_ns);
    }
    boundaries[span.device].push_back({span.start_ns, true, key});
    boundaries[span.device].push_back({span.end_ns, false, key});
  }
  for (std::size_t device = 0; device + header.host_threads < header.devices.size(); ++device) {
    DeviceAccount account{.name = header.devices[device]};
    std::int64_t first_busy_ns = result.end_ns, last_busy_ns = result.end_ns;
    bool worked = false;
    for (const Boundary& boundary : boundaries[device]) {
      if (boundary.key.first != State::busy) continue;
      first_busy_ns = worked ? std::min(first_busy_ns, boundary.at_ns) : boundary.at_ns;
      last_busy_ns = worked ? std::max(last_busy_ns, boundary.at_ns) : boundary.at_ns;
      worked = true;
    }
    account.startup_ns = first_busy_ns - result.start_ns;
    account.tail_ns = result.end_ns - last_busy_ns;
    sweep(account, std::move(boundaries[device]), first_busy_ns, last_busy_ns);
    result.devices.push_back(std::move(account));
  }
  return result;
}

}  // namespace headrace
