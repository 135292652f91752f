#include "virtual_host/channel/clock_log.h"

#include <algorithm>
#include <utility>

namespace vrank::host {

void ClockLog::Start(uint64_t count, int64_t now_ns) {
  LockGuard guard(&lock_);
  steps_ = std::make_shared<Steps>(1, Step{count, now_ns});
  dropped_ = false;
  recording_.store(true, std::memory_order_relaxed);
}

void ClockLog::Add(uint64_t count, int64_t now_ns) {
  if (!recording())
    return;
  LockGuard guard(&lock_);
  if (!recording())
    return;
  if (steps_->size() >= kMostSteps) {
    dropped_ = true;
    return;
  }
  // Threads may get here in another order than that in which they read the counter.
  Step& last = steps_->back();
  if (now_ns <= last.now_ns)
    return;
  if (count <= last.count)
    last.now_ns = now_ns;
  else
    steps_->push_back({count, now_ns});
}

bool ClockLog::Finish(int64_t start_ns, Converter* converter) {
  LockGuard guard(&lock_);
  recording_.store(false, std::memory_order_relaxed);
  *converter = [steps = std::shared_ptr<const Steps>(std::move(steps_)),
                start_ns](uint64_t count) {
    if (count >= static_cast<uint64_t>(start_ns))
      return static_cast<int64_t>(count);
    const auto after = std::upper_bound(
        steps->begin(), steps->end(), count,
        [](uint64_t value, const Step& step) { return value < step.count; });
    const Step& step = after == steps->begin() ? *after : *(after - 1);
    return start_ns + step.now_ns;
  };
  return !dropped_;
}

}  // namespace vrank::host
