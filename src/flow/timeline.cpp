#include "flow/timeline.h"

#include <utility>

namespace headrace {

Timeline::Timeline(Recorder* recorder, const std::vector<std::optional<std::uint32_t>>& devices,
                   std::int64_t start_ns)
    : recorder_(recorder) {
  if (recorder_ == nullptr) return;
  for (const std::optional<std::uint32_t>& device : devices) {
    lanes_.push_back({.device = device});
    put(lanes_.back(), {.kind = SpanKind::wait, .cause = "host"}, start_ns);
  }
}

void Timeline::set(std::size_t lane_index, Span activity, std::int64_t now_ns) {
  if (recorder_ == nullptr || !lanes_[lane_index].device) return;
  Lane& lane = lanes_[lane_index];
  activity.start_ns = lane.current.start_ns;
  activity.end_ns = lane.current.end_ns;
  activity.device = lane.current.device;
  if (activity == lane.current) return;
  close(lane, now_ns);
  put(lane, std::move(activity), now_ns);
}

void Timeline::amend(std::size_t lane_index, Span activity) {
  if (recorder_ == nullptr || !lanes_[lane_index].device) return;
  put(lanes_[lane_index], std::move(activity), lanes_[lane_index].current.start_ns);
}

void Timeline::finish(std::int64_t now_ns) {
  for (Lane& lane : lanes_) {
    if (!lane.device) continue;
    close(lane, now_ns);
    flush_as_one(lane, lane.worked ? "tail" : "startup");
  }
}

void Timeline::put(Lane& lane, Span activity, std::int64_t start_ns) {
  activity.start_ns = start_ns;
  activity.end_ns = 0;
  activity.device = lane.device.value_or(0);
  lane.current = std::move(activity);
}

void Timeline::close(Lane& lane, std::int64_t now_ns) {
  lane.current.end_ns = now_ns;
  if (lane.current.end_ns == lane.current.start_ns) return;
  if (lane.current.kind == SpanKind::wait) {
    lane.waits.push_back(std::move(lane.current));
    return;
  }
  if (!lane.worked) flush_as_one(lane, "startup");
  for (Span& wait : lane.waits) recorder_->add(std::move(wait));
  lane.waits.clear();
  recorder_->add(std::move(lane.current));
  lane.worked = true;
}

void Timeline::flush_as_one(Lane& lane, const char* cause) {
  if (lane.waits.empty()) return;
  recorder_->add({.start_ns = lane.waits.front().start_ns,
                  .end_ns = lane.waits.back().end_ns,
                  .kind = SpanKind::wait,
                  .device = *lane.device,
                  .cause = cause});
  lane.waits.clear();
}

}  // namespace headrace
