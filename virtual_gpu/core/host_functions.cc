// Collector threads wait for starts; the runner runs.

#include "virtual_gpu/core/host_functions.h"

#include <algorithm>
#include <utility>

namespace vrank::gpu {

HostFunctions::~HostFunctions() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    ready_changed_.notify_all();
    for (auto& [lane, collector] : collectors_)
      collector->added.notify_all();
  }
  if (runner_.joinable())
    runner_.join();
  for (auto& [lane, collector] : collectors_)
    collector->thread.join();
}

void HostFunctions::Add(uint32_t lane, Call call) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Collector>& collector = collectors_[lane];
  if (collector == nullptr) {
    collector = std::make_unique<Collector>();
    collector->thread =
        std::thread(&HostFunctions::Collect, this, lane, collector.get());
  }
  if (!runner_.joinable())
    runner_ = std::thread(&HostFunctions::Run, this);
  collector->waiting.push_back(std::move(call));
  collector->added.notify_one();
}

void HostFunctions::Collect(uint32_t lane, Collector* collector) {
  std::unique_lock lock(mutex_);
  while (true) {
    collector->added.wait(lock,
                          [&] { return stopping_ || !collector->waiting.empty(); });
    if (stopping_)
      return;
    Call call = std::move(collector->waiting.front());
    collector->waiting.pop_front();
    lock.unlock();
    call.start = channel_->Collect(call.slot).end;
    lock.lock();
    ready_.emplace(std::pair(call.start.nanoseconds(), lane), std::move(call));
    ready_changed_.notify_one();
  }
}

// The earliest call that is known to start and waits for no other call. A later call
// may be known first: its answer can reach us before that of a call it depends on.
HostFunctions::Ready::iterator HostFunctions::NextToRun() {
  return std::find_if(ready_.begin(), ready_.end(), [&](const auto& entry) {
    return !obligations_->AnyForeign(entry.second.before);
  });
}

void HostFunctions::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    auto next = ready_.end();
    ready_changed_.wait(lock, [&] {
      next = NextToRun();
      return stopping_ || next != ready_.end();
    });
    if (stopping_)
      return;
    Call call = std::move(ready_.extract(next).mapped());
    lock.unlock();
    // One that comes after a failure is not told of it.
    static_cast<void>(obligations_->Settle(call.before));
    RunOne(call);
    obligations_->Finish(call.id);
    lock.lock();
  }
}

void HostFunctions::RunOne(const Call& call) {
  // What it follows may not have ended, once a rank has failed.
  if (channel_->aborting())
    return;
  channel_->SetThreadClock(call.start);
  call.function(call.argument);
  protocol::HostFuncEnd end{};
  end.record.kind = protocol::RecordKind::kHostFuncEnd;
  end.number = call.number;
  end.took_ns = std::max(channel_->Now() - call.start, Duration()).nanoseconds();
  channel_->Emit(end);
}

}  // namespace vrank::gpu
