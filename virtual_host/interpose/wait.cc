// Interposed: waits for a lock or a semaphore that end at an absolute time.
//
// The program computed that time from the virtual clock; handed on as it is, the real
// clock would have passed it long ago, or never reach it. So the real wait is made in
// slices, and TimedWait says when the limit is reached.
//
// Helper threads wait without a limit as well where it says so, because a driver must
// know that they wait (thread_scheduler.h); and signals are announced, because from
// then on it must wait for them.
//
// Not interposed, because the C library's own callers bypass these names: C11's
// mtx_timedlock, message queues, sigtimedwait, timers and alarms.

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <cerrno>

#include "base/guest/export.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/process/process.h"
#include "virtual_host/process/virtual_clock.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/thread_state.h"
#include "virtual_host/wait/thread_waits.h"

namespace vrank::host {
namespace {

bool Valid(const timespec& t) {
  return t.tv_nsec >= 0 && t.tv_nsec < 1'000'000'000;
}

// Calls wait(absolute real time) until it returns something else than ETIMEDOUT or the
// limit is reached. `clock` is the clock of both the program's limit and the real wait.
template <typename Wait>
int WaitUntil(clockid_t clock, const timespec* limit, Wait wait) {
  GuestChannel* const channel = ProcessChannel();
  const std::optional<Duration> start =
      channel == nullptr ? std::nullopt : ClockStart(channel->settings(), clock);
  if (!start.has_value() || !Valid(*limit))
    return wait(limit);
  channel->DropReading();
  TimedWait timed(channel, TimePoint() + (FromTimespec(*limit) - *start));
  for (;;) {
    const Duration slice = timed.NextSlice();
    const timespec real = ToTimespec(RealNow(clock) + slice);
    if (const int result = wait(&real); result != ETIMEDOUT)
      return result;
    if (timed.Expired())
      return ETIMEDOUT;
  }
}

// 0, or ETIMEDOUT. Posts by another process are seen when a slice ends.
int WaitForSemaphoreAsHelper(GuestChannel* channel, HostThread* helper,
                             sem_t* semaphore, TimePoint deadline) {
  const bool taken = WaitByWord(channel, helper, semaphore, deadline,
                                [=] { return Real().sem_trywait(semaphore) == 0; });
  return taken ? 0 : ETIMEDOUT;
}

// A driver whom a helper has woken up lets that one go on to its next wait first: who
// of the two gets Python's interpreter lock next would be chance.
template <typename Wait>
int WaitForSemaphore(clockid_t clock, const timespec* limit, sem_t* semaphore,
                     Wait wait) {
  GuestChannel* const channel = ProcessChannel();
  const ThreadWaitScope waiting(WaitKind::kSemaphore, semaphore);
  const std::optional<Duration> start =
      channel == nullptr ? std::nullopt : ClockStart(channel->settings(), clock);
  HostThread* const helper =
      start.has_value() && Valid(*limit) ? channel->WaiterHere() : nullptr;
  if (helper == nullptr) {
    const int result = WaitUntil(clock, limit, wait);
    if (channel != nullptr)
      channel->LetHelpersRun();
    return result;
  }
  return WaitForSemaphoreAsHelper(channel, helper, semaphore,
                                  TimePoint() + (FromTimespec(*limit) - *start));
}

// sem_timedwait reports through errno.
int FromErrno(int result) {
  return result == 0 ? 0 : errno;
}
int ToErrno(int error) {
  if (error == 0)
    return 0;
  errno = error;
  return -1;
}

int AndGot(sem_t* semaphore, int result) {
  if (GuestChannel* const channel = result == 0 ? ConnectedChannel() : nullptr) {
    thread_waits.Took(semaphore);
    channel->Got(semaphore);
  }
  return result;
}

}  // namespace
}  // namespace vrank::host

using namespace vrank::host;

extern "C" {

VRANK_EXPORT int sem_post(sem_t* semaphore) noexcept {
  GuestChannel* const channel = ProcessChannel();
  if (channel == nullptr)
    return Real().sem_post(semaphore);
  channel->Post(semaphore);
  if (channel->scheduler().any() && thread_state.inside == 0)
    channel->SettleReading();
  int result = 0;
  const bool called = CallByWord(channel, semaphore, [&] {
    result = Real().sem_post(semaphore);
    channel->Stir();
  });
  // It waits for Python's interpreter lock, and has its place there, before a driver
  // goes on.
  if (called)
    channel->LetHelpersRun();
  return result;
}

VRANK_EXPORT int sem_wait(sem_t* semaphore) {
  GuestChannel* const channel = ProcessChannel();
  if (channel != nullptr)
    channel->DropReading();
  HostThread* const helper = channel == nullptr ? nullptr : channel->WaiterHere();
  const ThreadWaitScope waiting(WaitKind::kSemaphore, semaphore);
  if (helper == nullptr) {
    const int result = Real().sem_wait(semaphore);
    if (channel != nullptr)
      channel->LetHelpersRun();
    return AndGot(semaphore, result);
  }
  return AndGot(semaphore, WaitForSemaphoreAsHelper(channel, helper, semaphore,
                                                    vrank::TimePoint::Max()));
}

// Python (seen: 3.11) computes a limit before it takes any lock, and tries this first.
VRANK_EXPORT int sem_trywait(sem_t* semaphore) noexcept {
  GuestChannel* const channel = ProcessChannel();
  const int result = Real().sem_trywait(semaphore);
  if (channel == nullptr)
    return result;
  if (result == 0)
    channel->DropReading();
  else
    channel->DropReadingInVain();
  return AndGot(semaphore, result);
}

VRANK_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* mutex,
                                         const timespec* limit) noexcept {
  return WaitUntil(CLOCK_REALTIME, limit, [=](const timespec* real) {
    return Real().pthread_mutex_timedlock(mutex, real);
  });
}

VRANK_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock,
                                            const timespec* limit) noexcept {
  return WaitUntil(CLOCK_REALTIME, limit, [=](const timespec* real) {
    return Real().pthread_rwlock_timedrdlock(lock, real);
  });
}

VRANK_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock,
                                            const timespec* limit) noexcept {
  return WaitUntil(CLOCK_REALTIME, limit, [=](const timespec* real) {
    return Real().pthread_rwlock_timedwrlock(lock, real);
  });
}

VRANK_EXPORT int sem_timedwait(sem_t* __restrict semaphore,
                               const timespec* __restrict limit) {
  return AndGot(semaphore,
                ToErrno(WaitForSemaphore(
                    CLOCK_REALTIME, limit, semaphore, [=](const timespec* real) {
                      return FromErrno(Real().sem_timedwait(semaphore, real));
                    })));
}

VRANK_EXPORT int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                         const timespec* limit) noexcept {
  return WaitUntil(clock, limit, [=](const timespec* real) {
    return Real().pthread_mutex_clocklock(mutex, clock, real);
  });
}

VRANK_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                                            const timespec* limit) noexcept {
  return WaitUntil(clock, limit, [=](const timespec* real) {
    return Real().pthread_rwlock_clockrdlock(lock, clock, real);
  });
}

VRANK_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                                            const timespec* limit) noexcept {
  return WaitUntil(clock, limit, [=](const timespec* real) {
    return Real().pthread_rwlock_clockwrlock(lock, clock, real);
  });
}

VRANK_EXPORT int sem_clockwait(sem_t* semaphore, clockid_t clock,
                               const timespec* limit) {
  return AndGot(
      semaphore,
      ToErrno(WaitForSemaphore(clock, limit, semaphore, [=](const timespec* real) {
        return FromErrno(Real().sem_clockwait(semaphore, clock, real));
      })));
}

}  // extern "C"
