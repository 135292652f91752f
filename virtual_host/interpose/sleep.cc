// Interposed: sleeping and yielding.
//
// A sleep of a thread that drives the clock advances it by the full length and takes
// about a millisecond of real time, in which others get to run; beside other real ranks
// it takes until these have got as far, or wait. A helper, and a thread
// of a process that moves no clock, sleep until the clock gets there.

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/guest/export.h"
#include "base/guest/program_call.h"
#include "schedule/policy.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/process/process.h"
#include "virtual_host/process/virtual_clock.h"
#include "virtual_host/system/library_code.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/thread_state.h"
#include "virtual_host/wait/thread_waits.h"

namespace vrank::host {
namespace {

bool Valid(const timespec& t) {
  return t.tv_sec >= 0 && t.tv_nsec >= 0 && t.tv_nsec < 1'000'000'000;
}

// Whatever another real rank does before that time, it has done by the end.
int SleepBesidePeers(GuestChannel* channel, TimePoint deadline) {
  channel->LetHelpersRun();
  channel->SettleReading();
  TimedWait wait(channel, nullptr, deadline,
                 {.waits_for = ThreadScheduler::WaitsFor::kLimitOnly});
  while (!channel->aborting()) {
    if (!wait.Sleep())
      return EINTR;
    if (wait.Expired())
      return 0;
  }
  channel->AdvanceTo(deadline);
  return 0;
}

// Whether it has slept until then, while another thread moved the clock.
bool SleepsBesideIssuers(GuestChannel* channel, TimePoint deadline) {
  HostThread* const self = channel->IssuerHere();
  if (self == nullptr)
    return false;
  channel->LetHelpersRun();
  // Beside other real ranks the others' limits may be reached meanwhile.
  if (!protocol::HasRealPeers(channel->settings())) {
    InsideScope inside;
    if (channel->scheduler().MaySleepThrough(self, deadline))
      return false;
  }
  SleepAsHelper(channel, self, deadline);
  return true;
}

// Where another process of the rank sleeps, the rank is not at rest meanwhile: this
// thread goes on before a later sleep ends.
class AwakeScope {
 public:
  explicit AwakeScope(protocol::SegmentHeader* header)
      : nappers_(header->others_time_uses.load() != 0 ? &header->nappers : nullptr) {
    if (nappers_ != nullptr)
      nappers_->fetch_add(1);
  }
  ~AwakeScope() {
    if (nappers_ != nullptr)
      nappers_->fetch_sub(1);
  }
  AwakeScope(const AwakeScope&) = delete;
  AwakeScope& operator=(const AwakeScope&) = delete;

 private:
  std::atomic<uint32_t>* const nappers_;
};

// False: a signal ended it.
bool NapForOthers(GuestChannel* channel, Duration length) {
  AwakeScope awake(&channel->segment()->header);
  const timespec nap = ToTimespec(length);
  return Real().nanosleep(&nap, nullptr) == 0;
}

// Returns 0, or EINTR where a signal ended the sleep.
int SleepUntil(GuestChannel* channel, TimePoint deadline) {
  ProgramCall call(channel, "nanosleep");
  const ThreadWaitScope sleeps(WaitKind::kTime, nullptr);
  if (channel->DrivesClock()) {
    const Duration length = deadline - channel->Now();
    if (length <= Duration())
      return 0;
    if (SleepsBesideIssuers(channel, deadline))
      return 0;
    if (protocol::HasRealPeers(channel->settings()))
      return SleepBesidePeers(channel, deadline);
    if (!NapForOthers(channel, std::min(length, schedule::kSleepSlice)))
      return EINTR;
    channel->LetHelpersRun();  // those that it has woken, at the time before
    channel->AdvanceTo(deadline);
    channel->LetHelpersRun();
    return 0;
  }
  if (HostThread* const helper = channel->HelperHere()) {
    SleepAsHelper(channel, helper, deadline);
    return 0;
  }
  return SleepAsFollower(channel, deadline);
}

// A relative sleep; `rest` is filled in where a signal ended it.
int SleepFor(GuestChannel* channel, Duration length, timespec* rest) {
  ProgramCall call(channel, "nanosleep");
  const TimePoint deadline = channel->Now() + length;
  const int error = SleepUntil(channel, deadline);
  if (error != 0 && rest != nullptr)
    *rest = ToTimespec(std::max(deadline - channel->Peek(), Duration()));
  return error;
}

}  // namespace
}  // namespace vrank::host

using namespace vrank;
using namespace vrank::host;

extern "C" {

VRANK_EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* request,
                                 timespec* rest) {
  GuestChannel* const channel = ProcessChannel();
  const std::optional<Duration> start =
      channel == nullptr ? std::nullopt : ClockStart(channel->settings(), clock);
  if (!start.has_value() || !Valid(*request))
    return Real().clock_nanosleep(clock, flags, request, rest);
  channel->Act("nanosleep");
  if ((flags & TIMER_ABSTIME) == 0)
    return SleepFor(channel, FromTimespec(*request), rest);
  channel->DropReading();
  return SleepUntil(channel, TimePoint() + (FromTimespec(*request) - *start));
}

VRANK_EXPORT int nanosleep(const timespec* request, timespec* rest) {
  GuestChannel* const channel = ProcessChannel();
  if (channel == nullptr || !Valid(*request))
    return Real().nanosleep(request, rest);
  channel->Act("nanosleep");
  const int error = SleepFor(channel, FromTimespec(*request), rest);
  if (error == 0)
    return 0;
  errno = error;
  return -1;
}

VRANK_EXPORT int usleep(useconds_t microseconds) {
  const timespec request = ToTimespec(Duration::Microseconds(microseconds));
  return nanosleep(&request, nullptr);
}

VRANK_EXPORT unsigned int sleep(unsigned int seconds) {
  const timespec request{static_cast<time_t>(seconds), 0};
  timespec rest{};
  if (nanosleep(&request, &rest) == 0)
    return 0;
  return static_cast<unsigned int>(rest.tv_sec + (rest.tv_nsec > 0 ? 1 : 0));
}

VRANK_EXPORT int sched_yield() noexcept {
  GuestChannel* const channel = ProcessChannel();
  if (channel != nullptr && !IsMathCode(__builtin_return_address(0))) {
    channel->Spend(HostCost::kYield);
    channel->LetHelpersRun();
  }
  return Real().sched_yield();
}

}  // extern "C"
