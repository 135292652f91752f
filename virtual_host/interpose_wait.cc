// Interposed: waits for a lock, a condition or a semaphore that end at an absolute
// time.
//
// The program computed that time from the virtual clock; handed on as it is, the real
// clock would have passed it long ago, or never reach it. So the real wait is made in
// slices, and TimedWait says when the limit is reached.
//
// Not interposed, because the C library's own callers bypass these names: C11
// cnd_timedwait and mtx_timedlock, message queues, sigtimedwait, timers and alarms.

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <cerrno>

#include "base/guest/export.h"
#include "virtual_host/futex.h"
#include "virtual_host/process.h"
#include "virtual_host/real_calls.h"
#include "virtual_host/timed_wait.h"
#include "virtual_host/virtual_clock.h"

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
  TimedWait timed(channel, TimePoint() + (FromTimespec(*limit) - *start));
  for (;;) {
    const Duration slice = timed.NextSlice();
    const timespec real = ToTimespec(RealNow(clock) + slice);
    const int result = wait(&real);
    if (result != ETIMEDOUT || timed.Expired())
      return result;
  }
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

// The clock that pthread_condattr_setclock chose: glibc keeps it in bit 1 of __wrefs
// (nptl/pthread_cond_common.c).
clockid_t ClockOf(const pthread_cond_t* condition) {
  return (condition->__data.__wrefs & 2) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

}  // namespace
}  // namespace vrank::host

using namespace vrank::host;

extern "C" {

VRANK_EXPORT int pthread_cond_timedwait(pthread_cond_t* condition,
                                        pthread_mutex_t* mutex, const timespec* limit) {
  return WaitUntil(ClockOf(condition), limit, [=](const timespec* real) {
    return Real().pthread_cond_timedwait(condition, mutex, real);
  });
}

VRANK_EXPORT int pthread_cond_clockwait(pthread_cond_t* condition,
                                        pthread_mutex_t* mutex, clockid_t clock,
                                        const timespec* limit) {
  return WaitUntil(clock, limit, [=](const timespec* real) {
    return Real().pthread_cond_clockwait(condition, mutex, clock, real);
  });
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
  return ToErrno(WaitUntil(CLOCK_REALTIME, limit, [=](const timespec* real) {
    return FromErrno(Real().sem_timedwait(semaphore, real));
  }));
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
  return ToErrno(WaitUntil(clock, limit, [=](const timespec* real) {
    return FromErrno(Real().sem_clockwait(semaphore, clock, real));
  }));
}

}  // extern "C"
