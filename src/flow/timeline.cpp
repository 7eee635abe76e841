#include "flow/timeline.h"

namespace headrace {
namespace {

constexpr Activity kWaitsForHost{.cause = "host"};

}  // namespace

Timeline::Timeline(Recorder* recorder, const std::vector<std::optional<std::uint32_t>>& devices,
                   std::int64_t start_ns)
    : recorder_(recorder) {
  if (recorder_ == nullptr) return;
  for (const std::optional<std::uint32_t>& device : devices)
    lanes_.push_back({.device = device, .current = {kWaitsForHost, start_ns}});
}

void Timeline::set(std::size_t lane_index, const Activity& activity, std::int64_t now_ns) {
  if (recorder_ == nullptr || !lanes_[lane_index].device) return;
  Lane& lane = lanes_[lane_index];
  if (activity == lane.current.activity) return;
  close(lane, now_ns);
  lane.current = {activity, now_ns};
}

void Timeline::amend(std::size_t lane_index, const Activity& activity) {
  if (recorder_ == nullptr || !lanes_[lane_index].device) return;
  lanes_[lane_index].current.activity = activity;
}

void Timeline::finish(std::int64_t now_ns) {
  for (Lane& lane : lanes_) {
    if (!lane.device) continue;
    close(lane, now_ns);
    flush_as_one(lane, lane.worked ? "tail" : "startup");
  }
}

void Timeline::close(Lane& lane, std::int64_t now_ns) {
  lane.current.end_ns = now_ns;
  if (lane.current.end_ns == lane.current.start_ns) return;
  if (lane.current.activity.kind == SpanKind::wait) {
    lane.waits.push_back(lane.current);
    return;
  }
  if (!lane.worked) flush_as_one(lane, "startup");
  for (const Timed& wait : lane.waits) record(lane, wait);
  lane.waits.clear();
  record(lane, lane.current);
  lane.worked = true;
}

void Timeline::record(const Lane& lane, const Timed& timed) {
  const Activity& activity = timed.activity;
  recorder_->add({.start_ns = timed.start_ns,
                  .end_ns = timed.end_ns,
                  .kind = activity.kind,
                  .device = *lane.device,
                  .stage = std::string(activity.stage),
                  .replica = activity.replica,
                  .step = activity.step,
                  .sequence = activity.sequence,
                  .cause = std::string(activity.cause),
                  .channel = std::string(activity.channel)});
}

void Timeline::flush_as_one(Lane& lane, std::string_view cause) {
  if (lane.waits.empty()) return;
  const Activity all{.cause = cause};
  record(lane, {all, lane.waits.front().start_ns, lane.waits.back().end_ns});
  lane.waits.clear();
}

}  // namespace headrace
