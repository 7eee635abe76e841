// Definitions of pipeline.h. Layer: flow.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "headrace/pipeline.h"
#include "headrace/thread.h"

namespace headrace {
namespace pipeline_detail {

template <typename T>
using Link = SpscChannel<T>;

// What the threads of one pipeline share.
struct Run {
  const PipelineOptions& options;
  const std::size_t stages;
  std::mutex mutex;
  std::optional<Error> error;         // the first
  std::atomic<bool> dropped = false;  // the stop token ended a wait

  // Runs one stage, `body` an item, until it returns false or throws. However it ends, it closes its
  // links: the stage before it can send no more, the one behind it drains what was sent.
  template <typename Body, typename... Links>
  void stage(std::size_t number, Body body, Links&... links) {
    std::uint64_t item = 0;
    try {
      if (!options.cores.empty()) pin_to({options.cores[number * options.cores.size() / stages]});
      while (body()) ++item;
    } catch (...) {
      keep_error(number, item);
    }
    (links.close(), ...);
  }

  // In a catch block.
  void keep_error(std::size_t number, std::uint64_t item) noexcept {
    const std::lock_guard lock(mutex);
    if (error) return;
    try {
      error = caught(fmt::format("stage {}, item {}", number, item));
    } catch (...) {
      error = out_of_memory;
    }
  }

  template <typename T>
  bool send(Link<T>& link, T item) {
    return went(link.send(std::move(item), 0, options.stop));
  }
  template <typename T>
  bool receive(Link<T>& link, T& item) {
    return went(link.receive(item, options.stop));
  }
  bool went(Status status) {
    if (status == Status::stopped) dropped = true;
    return status == Status::ok;
  }
  const Error out_of_memory{ErrorCode::resource, "out of memory"};
  ChannelLimits limits() const { return {.items = options.capacity}; }
};

// The calling thread's cores, as they were.
class KeepCores {
 public:
  ~KeepCores() {
    try {
      pin_to(cores_);
    } catch (...) {  // they were taken from the process meanwhile
    }
  }

 private:
  const std::vector<int> cores_ = allowed_cores();
};

// Runs the stages behind `link`. Where one of their threads does not start, the one before it must
// not wait for it.
template <typename T, typename Stages>
void closing(Link<T>& link, Stages stages) {
  try {
    stages();
  } catch (...) {
    link.close();
    throw;
  }
}

// The last stage, in the caller's thread.
template <typename In, typename Sink>
void run_from(Run& run, std::size_t number, Link<In>& in, Sink& sink) {
  const auto body = [&] {
    In item{};
    if (!run.receive(in, item)) return false;
    sink(std::move(item));
    return true;
  };
  run.stage(number, body, in);
}

// A stage in a thread of its own, and the stages behind it.
template <typename In, typename Stage, typename Next, typename... Rest>
void run_from(Run& run, std::size_t number, Link<In>& in, Stage& stage, Next& next, Rest&... rest) {
  using Out = std::remove_cvref_t<std::invoke_result_t<Stage&, In>>;
  Link<Out> out(fmt::format("output of stage {}", number), run.limits());
  const auto body = [&] {
    In item{};
    return run.receive(in, item) && run.send<Out>(out, stage(std::move(item)));
  };
  const std::jthread thread([&] { run.stage(number, body, in, out); });
  closing(out, [&] { run_from(run, number + 1, out, next, rest...); });
}

}  // namespace pipeline_detail

template <typename Source, typename... Stages>
Status run_pipeline(const PipelineOptions& options, Source source, Stages... stages) {
  static_assert(sizeof...(Stages) > 0, "a pipeline needs a sink behind its source");
  using Out = typename std::invoke_result_t<Source&>::value_type;
  pipeline_detail::Run run{.options = options, .stages = 1 + sizeof...(Stages)};
  pipeline_detail::Link<Out> out("output of stage 0", run.limits());
  {
    const auto body = [&] {
      std::optional<Out> item = source();
      return item && run.template send<Out>(out, *std::move(item));
    };
    const pipeline_detail::KeepCores keep;
    try {
      const std::jthread thread([&] { run.stage(0, body, out); });
      pipeline_detail::closing(out, [&] { pipeline_detail::run_from(run, 1, out, stages...); });
    } catch (const std::system_error& error) {
      fail(ErrorCode::resource, "cannot start a thread for each of {} stages: {}", run.stages,
           error.what());
    }
  }
  if (run.error) throw *run.error;
  return run.dropped ? Status::stopped : Status::ok;
}

}  // namespace headrace
