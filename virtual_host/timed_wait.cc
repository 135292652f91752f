#include "virtual_host/timed_wait.h"

#include <algorithm>

#include "virtual_host/futex.h"

namespace vrank::host {
namespace {

// Slices grow: a short wait is precise, a long one costs 60 wake-ups per second.
constexpr Duration kFirstSlice = Duration::Milliseconds(1);
constexpr Duration kLongestSlice = Duration::Milliseconds(16);

Duration Half(Duration d) {
  return Duration::Nanoseconds(d.nanoseconds() / 2);
}

}  // namespace

TimedWait::TimedWait(GuestChannel* channel, TimePoint deadline)
    : channel_(channel),
      deadline_(deadline),
      drives_(channel->DrivesClock()),
      needed_(std::min(std::max(deadline - channel->Peek(), Duration()),
                       drives_ ? kPatience : Duration::Seconds(1 << 30))),
      slice_(Half(kFirstSlice)) {}

Duration TimedWait::NextSlice() {
  slice_began_ = RealNow(CLOCK_MONOTONIC);
  cpu_at_slice_ = RealNow(CLOCK_PROCESS_CPUTIME_ID);
  if (channel_->Peek() >= deadline_)
    return Duration();
  slice_ = std::min(slice_ + slice_, kLongestSlice);
  return std::min(slice_, std::max(needed_ - counted_, Duration::Microseconds(10)));
}

bool TimedWait::Expired() {
  if (channel_->Peek() >= deadline_)
    return true;
  const Duration passed = RealNow(CLOCK_MONOTONIC) - slice_began_;
  if (!drives_) {
    counted_ += passed;
    return counted_ >= needed_;
  }
  const Duration cpu = RealNow(CLOCK_PROCESS_CPUTIME_ID) - cpu_at_slice_;
  // Waking up and looking costs some CPU itself; half of the slice is somebody working.
  const bool busy = cpu > Half(passed);
  if (channel_->threads_asking() == 0)
    counted_ += busy ? Duration::Nanoseconds(passed.nanoseconds() / 16) : passed;
  if (counted_ < needed_)
    return false;
  channel_->AdvanceTo(deadline_);
  return true;
}

}  // namespace vrank::host
