// Definitions of StopState in model_sync.h.
#pragma once

#include "flow/explore/model_sync.h"

namespace headrace::explore {

inline bool StopState::request(const Where& where) {
  Model& model = *Model::current();
  if (model.update("requests stop", *this, where, [](std::uint64_t) { return 1; }) != 0)
    return false;
  if (model.settings().faults.silent_stops) return true;
  while (!callbacks_.empty()) {
    Callback& callback = *callbacks_.front();
    callbacks_.erase(callbacks_.begin());
    bool destroyed = false;
    callback.destroyed = &destroyed;
    caller_ = model.self();
    model.step("calls back", *this, where);
    callback.call();
    model.step("called back", *this, where);
    if (!destroyed) {
      callback.done = true;
      callback.destroyed = nullptr;
    }
  }
  return true;
}

inline void StopState::add(Callback& callback, const Where& where) {
  Model& model = *Model::current();
  model.step("adds a stop callback", *this, where);
  if (model.peek(*this) == 0) {
    callbacks_.push_back(&callback);
  } else {
    callback.call();
    callback.done = true;
  }
}

inline void StopState::remove(Callback& callback, const Where& where) {
  Model& model = *Model::current();
  model.step("removes a stop callback", *this, where);
  if (std::erase(callbacks_, &callback) != 0 || callback.done) return;
  if (caller_ == model.self()) {  // the callback destroys itself
    *callback.destroyed = true;
    return;
  }
  model.step(
      "waits for a stop callback", *this, where,
      [](const void* done) { return *static_cast<const bool*>(done); }, &callback.done);
}

}  // namespace headrace::explore
