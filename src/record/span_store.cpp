#include "record/span_store.h"

#include <algorithm>

namespace headrace {

SpanStore::SpanStore(std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 1)), shared_(capacity_) {}

Name SpanStore::name(std::string_view text) {
  const std::lock_guard lock(mutex_);
  return number(text);
}

Name SpanStore::number(std::string_view text) {
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) return known->second;
  const Name next{static_cast<std::uint32_t>(names_.size())};
  return numbers_.emplace(names_.emplace_back(text), next).first->second;
}

Lane::State& SpanStore::new_lane(std::uint32_t device) {
  const std::lock_guard lock(mutex_);
  return lanes_.emplace_back(clock_, device, capacity_);
}

void SpanStore::add(const Span& span) {
  const std::lock_guard lock(mutex_);
  const Label label{span.kind,    number(span.stage), number(span.cause), number(span.channel),
                    span.replica, span.step,          span.sequence};
  shared_.push({span.start_ns, span.end_ns, span.device, label});
}

std::vector<const SpanRing*> SpanStore::rings() const {
  const std::lock_guard lock(mutex_);
  std::vector<const SpanRing*> rings{&shared_};
  for (const Lane::State& lane : lanes_) rings.push_back(&lane.ring);
  return rings;
}

std::vector<Span> SpanStore::to_spans(const std::vector<SpanRecord>& records) const {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    names.assign(names_.begin(), names_.end());
  }
  const auto text = [&](Name name) { return names[static_cast<std::size_t>(name)]; };
  std::vector<Span> spans;
  spans.reserve(records.size());
  for (const SpanRecord& record : records)
    spans.push_back({.start_ns = record.start_ns,
                     .end_ns = record.end_ns,
                     .kind = record.label.kind,
                     .device = record.device,
                     .stage = text(record.label.stage),
                     .replica = record.label.replica,
                     .step = record.label.step,
                     .sequence = record.label.sequence,
                     .cause = text(record.label.cause),
                     .channel = text(record.label.channel)});
  return spans;
}

}  // namespace headrace
