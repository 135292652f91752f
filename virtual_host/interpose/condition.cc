// Interposed: condition variables.
//
// A limit is one of virtual time, so the real wait is made in slices, and TimedWait
// says when it is reached. Who is woken, and in which order, condition_queue.h says.
//
// Helper threads wait without a limit here, too, because a driver must know that they
// wait (thread_scheduler.h).
//
// Not interposed, because the C library's own callers bypass these names: C11's
// cnd_wait and cnd_timedwait.

#include <pthread.h>
#include <time.h>

#include <cerrno>
#include <optional>

#include "base/guest/export.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/process/process.h"
#include "virtual_host/process/virtual_clock.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/thread_state.h"
#include "virtual_host/wait/condition_queue.h"
#include "virtual_host/wait/thread_waits.h"

namespace vrank::host {
namespace {

// glibc keeps in __wrefs (nptl/pthread_cond_common.c) whether processes share the
// condition (bit 0), and the clock that pthread_condattr_setclock chose (bit 1).
bool IsShared(const pthread_cond_t* condition) {
  return (condition->__data.__wrefs & 1) != 0;
}
clockid_t ClockOf(const pthread_cond_t* condition) {
  return (condition->__data.__wrefs & 2) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

constinit thread_local ConditionWaiter this_waiter;

void KickWaiter(HostThread* helper) {
  auto* const waiter = reinterpret_cast<ConditionWaiter*>(helper->kick_argument);
  waiter->kicked = true;
  Real().pthread_cond_signal(&waiter->wake);
}

// One wait, as far as a cancellation has to undo it.
struct Wait {
  GuestChannel* channel;
  pthread_mutex_t* mutex;  // the program's
  ConditionWaiter* waiter;
  bool limited;
  std::optional<TimedWait> timed;  // a helper's without a limit, too
};

// Sleeps until it is called or kicked, or for a slice. REQUIRES: the waiter's mutex.
void SleepOnce(Wait* wait) {
  ConditionWaiter& waiter = *wait->waiter;
  timespec until{};
  if (wait->limited)
    until = ToTimespec(RealNow(CLOCK_MONOTONIC) + wait->timed->NextSlice());
  int result = 0;
  while (!waiter.called && !waiter.kicked && result == 0)
    result = wait->limited ? Real().pthread_cond_clockwait(&waiter.wake, &waiter.mutex,
                                                           CLOCK_MONOTONIC, &until)
                           : Real().pthread_cond_wait(&waiter.wake, &waiter.mutex);
  waiter.kicked = false;
}

// Until it is called, or its limit has come. REQUIRES: the waiter's mutex.
void SleepUntilCalled(Wait* wait) {
  for (;;) {
    SleepOnce(wait);
    if (wait->waiter->called)
      return;
    if (!wait->limited)
      continue;
    Real().pthread_mutex_unlock(&wait->waiter->mutex);
    const TimedWait::Outcome outcome = wait->timed->AfterSlice();
    Real().pthread_mutex_lock(&wait->waiter->mutex);
    if (outcome == TimedWait::Outcome::kExpired)
      return;
    if (outcome == TimedWait::Outcome::kSignalled && !wait->waiter->called)
      wait->timed->GoOn();  // it was seen awake between two slices
  }
}

// As after a wait that has ended: a thread that is cancelled holds the program's mutex.
void Undo(void* argument) {
  auto* const wait = static_cast<Wait*>(argument);
  Real().pthread_mutex_unlock(&wait->waiter->mutex);
  pthread_mutex_lock(wait->mutex);
  condition_queue.Remove(wait->waiter, &wait->channel->scheduler());
  wait->timed.reset();
}

// In a function of its own: what is undone by a cancellation is called by a jump.
void SleepCancellably(Wait* wait) {
  pthread_cleanup_push(Undo, wait);
  SleepUntilCalled(wait);
  pthread_cleanup_pop(0);
}

int WaitInTurn(GuestChannel* channel, pthread_cond_t* condition, pthread_mutex_t* mutex,
               std::optional<TimePoint> limit) {
  const ThreadWaitScope waits(WaitKind::kCondition, condition);
  HostThread* const helper = channel->WaiterHere();
  ConditionWaiter& waiter = this_waiter;
  Wait wait{channel, mutex, &waiter, limit.has_value(), std::nullopt};
  // From when it counts as waiting, its place is known.
  condition_queue.Add(&waiter, condition, mutex,
                      helper != nullptr ? helper : GuestChannel::Turn());
  int result = pthread_mutex_unlock(mutex);
  // Whoever sees that it waits finds the mutex free. Whom it let go on by that may have
  // called it: then it never seems to wait.
  Real().pthread_mutex_lock(&waiter.mutex);
  const bool called = waiter.called;
  if (called && helper != nullptr)
    channel->scheduler().RaiseClock(helper, waiter.clock);
  else if (!called && (limit.has_value() || helper != nullptr))
    wait.timed.emplace(
        channel, limit.value_or(TimePoint::Max()),
        Waking{condition, KickWaiter, reinterpret_cast<uint64_t>(&waiter)});
  if (result == 0 && !called)
    SleepCancellably(&wait);
  Real().pthread_mutex_unlock(&waiter.mutex);
  // A driver whom a helper has woken up lets that one go on first, as does a helper
  // with those that run: who holds the mutex next would be chance.
  if (helper == nullptr)
    channel->LetHelpersRun();
  else if (wait.timed.has_value())
    wait.timed->AwaitTurn();
  if (result == 0)
    result = pthread_mutex_lock(mutex);
  const bool expired = condition_queue.Remove(&waiter, &channel->scheduler());
  return result == 0 && expired ? ETIMEDOUT : result;
}

// The channel, where the wait is one of this process's alone.
GuestChannel* ChannelFor(const pthread_cond_t* condition) {
  return thread_state.inside != 0 || IsShared(condition) ? nullptr : ProcessChannel();
}

// nothing: `limit` is none on a clock of the program's.
std::optional<TimePoint> LimitOn(GuestChannel* channel, clockid_t clock,
                                 const timespec& limit) {
  const std::optional<Duration> start = ClockStart(channel->settings(), clock);
  if (!start.has_value() || limit.tv_nsec < 0 || limit.tv_nsec >= 1'000'000'000)
    return std::nullopt;
  return TimePoint() + (FromTimespec(limit) - *start);
}

// Calls `call(scheduler, clock)`; false where nobody waits in the queue.
template <typename CallHere>
bool CalledHere(CallHere call) {
  GuestChannel* const channel = ProcessChannel();
  if (channel == nullptr)
    return false;
  if (channel->scheduler().any() && thread_state.inside == 0)
    channel->SettleReading();
  const TimePoint clock = channel->Peek();
  ConditionQueue::Called called = ConditionQueue::Called::kNobody;
  {
    InsideScope inside;
    called = call(&channel->scheduler(), clock);
  }
  // A mutex that the other one wants is given back first.
  if (called == ConditionQueue::Called::kFree && thread_state.owes_stop)
    channel->LetHelpersRun();
  return called != ConditionQueue::Called::kNobody;
}

}  // namespace
}  // namespace vrank::host

using namespace vrank::host;

extern "C" {

VRANK_EXPORT int pthread_cond_clockwait(pthread_cond_t* condition,
                                        pthread_mutex_t* mutex, clockid_t clock,
                                        const timespec* limit) {
  GuestChannel* const channel = ChannelFor(condition);
  const auto virtual_limit = channel == nullptr ? std::optional<vrank::TimePoint>()
                                                : LimitOn(channel, clock, *limit);
  if (!virtual_limit.has_value())
    return Real().pthread_cond_clockwait(condition, mutex, clock, limit);
  channel->DropReading();
  return WaitInTurn(channel, condition, mutex, virtual_limit);
}

VRANK_EXPORT int pthread_cond_timedwait(pthread_cond_t* condition,
                                        pthread_mutex_t* mutex, const timespec* limit) {
  return pthread_cond_clockwait(condition, mutex, ClockOf(condition), limit);
}

VRANK_EXPORT int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  GuestChannel* const channel = ChannelFor(condition);
  return channel == nullptr ? Real().pthread_cond_wait(condition, mutex)
                            : WaitInTurn(channel, condition, mutex, std::nullopt);
}

VRANK_EXPORT int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  const bool called =
      CalledHere([&](ThreadScheduler* scheduler, vrank::TimePoint clock) {
        return condition_queue.CallFirst(condition, scheduler, clock);
      });
  return called ? 0 : Real().pthread_cond_signal(condition);
}

VRANK_EXPORT int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  CalledHere([&](ThreadScheduler* scheduler, vrank::TimePoint clock) {
    return condition_queue.CallAll(condition, scheduler, clock);
  });
  return Real().pthread_cond_broadcast(condition);
}

}  // extern "C"
