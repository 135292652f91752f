// Interposed: syscall(2), for the one system call that programs make through it with a
// time limit: futex. libstdc++'s std::future and std::atomic waits, abseil and Rust's
// standard library do; their absolute limits come from the virtual clock.

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <optional>

#include "base/guest/export.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/process/process.h"
#include "virtual_host/process/virtual_clock.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {
namespace {

struct Arguments {
  long a, b, c, d, e, f;
};

bool IsFutexWait(long number, const Arguments& arguments) {
  const long command = arguments.b & FUTEX_CMD_MASK;
  return number == SYS_futex && (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET);
}

bool IsFutexWake(long number, const Arguments& arguments) {
  const long command = arguments.b & FUTEX_CMD_MASK;
  return number == SYS_futex && (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET);
}

// Waiters for a futex must look for themselves after any return.
void KickFutex(HostThread* helper) {
  RawSyscall(SYS_futex, helper->object,
             FUTEX_WAKE | (helper->kick_argument & FUTEX_PRIVATE_FLAG), INT_MAX,
             nullptr, nullptr, 0);
}

Waking HowToWake(const Arguments& arguments) {
  return {reinterpret_cast<const void*>(arguments.a), KickFutex,
          static_cast<uint64_t>(arguments.b)};
}

// FUTEX_WAIT takes a length, FUTEX_WAIT_BITSET a point on the clock its flag names.
long TimedFutexWait(GuestChannel* channel, const Arguments& arguments) {
  const Duration limit = FromTimespec(*reinterpret_cast<const timespec*>(arguments.d));
  const bool absolute = (arguments.b & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
  const clockid_t clock =
      (arguments.b & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  const TimePoint deadline =
      absolute ? TimePoint() + (limit - *ClockStart(channel->settings(), clock))
               : channel->Now() + limit;
  if (absolute)
    channel->DropReading();
  TimedWait timed(channel, deadline, HowToWake(arguments));
  for (;;) {
    const Duration slice = timed.NextSlice();
    const timespec real = ToTimespec(absolute ? RealNow(clock) + slice : slice);
    const long result = RawSyscall(SYS_futex, arguments.a, arguments.b, arguments.c,
                                   &real, arguments.e, arguments.f);
    if (result != -ETIMEDOUT) {
      timed.AwaitTurn();
      // Kicked: woken, but by its limit.
      return result == 0 && timed.ExpiredMeanwhile() ? -ETIMEDOUT : result;
    }
    const TimedWait::Outcome outcome = timed.AfterSlice();
    if (outcome != TimedWait::Outcome::kWaits)
      return outcome == TimedWait::Outcome::kExpired ? result : 0;
  }
}

long WaitForFutex(GuestChannel* channel, const Arguments& arguments) {
  if (arguments.d != 0)
    return TimedFutexWait(channel, arguments);
  if (channel->WaiterHere() == nullptr)
    return RawSyscall6(SYS_futex, arguments.a, arguments.b, arguments.c, arguments.d,
                       arguments.e, arguments.f);
  TimedWait wait(channel, TimePoint::Max(), HowToWake(arguments));
  const long result = RawSyscall6(SYS_futex, arguments.a, arguments.b, arguments.c,
                                  arguments.d, arguments.e, arguments.f);
  wait.AwaitTurn();
  return result;
}

}  // namespace
}  // namespace vrank::host

using namespace vrank::host;

extern "C" VRANK_EXPORT long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  // Reading more than the caller passed gives what lies in the registers, which the
  // kernel ignores; libc's own syscall does the same.
  Arguments arguments;
  arguments.a = va_arg(list, long);
  arguments.b = va_arg(list, long);
  arguments.c = va_arg(list, long);
  arguments.d = va_arg(list, long);
  arguments.e = va_arg(list, long);
  arguments.f = va_arg(list, long);
  va_end(list);
  GuestChannel* const channel =
      number == SYS_futex && thread_state.inside == 0 ? ProcessChannel() : nullptr;
  std::optional<ThreadScheduler::WakeScope> waking;
  if (channel != nullptr && channel->scheduler().any() &&
      IsFutexWake(number, arguments)) {
    waking.emplace(&channel->scheduler());
    const vrank::TimePoint clock = channel->Peek();
    InsideScope inside;
    channel->scheduler().Signal(reinterpret_cast<const void*>(arguments.a), clock);
  }
  const long result = channel != nullptr && IsFutexWait(number, arguments)
                          ? WaitForFutex(channel, arguments)
                          : RawSyscall6(number, arguments.a, arguments.b, arguments.c,
                                        arguments.d, arguments.e, arguments.f);
  waking.reset();
  if (channel != nullptr && thread_state.owes_stop)
    channel->LetHelpersRun();
  if (result >= 0 || result < -4095)
    return result;
  errno = static_cast<int>(-result);
  return -1;
}
