// Who is woken by whom: signals, and what is only seen awake.

#include <algorithm>

#include "virtual_host/turns/helper_threads.h"
#include "virtual_host/turns/kernel_thread.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

using State = Helper::State;

bool HelperThreads::AnyoneSignalled(const void* object) const {
  return std::any_of(helpers_.begin(), helpers_.end(), [&](const auto& other) {
    return other->object == object && other->signalled && !other->guessed;
  });
}

// One that was only seen awake has been called by nobody yet: it looks at its limit.
bool HelperThreads::AwaitsSignal(const Helper& helper) {
  return helper.state == State::kParked ||
         (Runs(helper.state) && helper.signalled && helper.guessed);
}

void HelperThreads::Signal(const void* object, TimePoint clock) {
  LockGuard guard(&lock_);
  for (const auto& helper : helpers_)
    if (helper->object == object && AwaitsSignal(*helper))
      Woken(helper.get(), clock);
  for (DriverWait* wait : driver_waits_)
    wait->signalled |= wait->object == object;
}

void HelperThreads::SignalOne(Helper* helper, const void* object, TimePoint clock) {
  LockGuard guard(&lock_);
  const State state = helper->state;
  const bool waits =
      AwaitsSignal(*helper) || state == State::kBlocked || state == State::kQuiet;
  if (waits && helper->object == object)
    Woken(helper, clock);
}

Helper* HelperThreads::SignalFirst(const void* object, TimePoint clock) {
  LockGuard guard(&lock_);
  Helper* first = nullptr;
  for (const auto& helper : helpers_)
    if (helper->object == object && AwaitsSignal(*helper) &&
        (first == nullptr || helper->parked < first->parked))
      first = helper.get();
  if (first != nullptr)
    Woken(first, clock);
  return first;
}

void HelperThreads::Woken(Helper* helper, TimePoint clock) {
  if (AwaitsSignal(*helper))
    helper->state = State::kParked;  // its place is that of one that is called now
  helper->signalled = true;
  helper->guessed = false;
  helper->clock_ns = std::max(helper->clock_ns.load(), clock.nanoseconds());
  LetRun(helper, State::kRunning, Place::kLast);
  if (helper != thread_state.turn && thread_state.helper == nullptr)
    OweStop();
  Changed();
}

// The calling thread, which is no helper, ends its turn as soon as it may, and until
// then whoever it has called waits: else the two would run side by side.
void HelperThreads::OweStop() {
  thread_state.owes_stop = true;
  if (thread_state.turn != nullptr)
    thread_state.turn->owes_stop = true;
}

// One that polls may wait for a lock of this library, between two slices.
bool HelperThreads::IsAwake(const Helper& helper) {
  char state = 0;
  return helper.polls && helper.state == State::kParked
             ? !WaitsOutside(helper, &state)
             : !Waits(KernelState(helper.tid));
}

// What is taken for woken but only looks whether its limit is over waits again, as
// after a signal that was for another thread.
bool HelperThreads::SignalWoken(TimePoint clock) {
  LockGuard guard(&lock_);
  bool any = false;
  for (const auto& helper : helpers_) {
    const State state = helper->state;
    const bool waits =
        state == State::kParked || state == State::kQuiet || state == State::kBlocked;
    if (!waits || helper->asks != protocol::kNoSlot || helper->tid == 0 ||
        !IsAwake(*helper))
      continue;
    if (state == State::kParked)
      helper->signalled = helper->guessed = true;  // see Unpark for its clock
    else
      helper->clock_ns = std::max(helper->clock_ns.load(), clock.nanoseconds());
    LetRun(helper.get(), State::kRunning,
           state == State::kParked && helper->polls ? Place::kLast : Place::kFirst);
    any = true;
  }
  if (any)
    Changed();
  return any;
}

void HelperThreads::SignalWritten(TimePoint clock) {
  LockGuard guard(&lock_);
  for (const auto& helper : helpers_) {
    const State state = helper->state;
    const bool unseen = state == State::kQuiet || state == State::kBlocked;
    const bool polls = helper->polls && AwaitsSignal(*helper);
    if ((!unseen && !polls) || helper->tid == 0 || !IsAwake(*helper))
      continue;
    if (!polls) {
      Woken(helper.get(), clock);
      continue;
    }
    // It may only look at its limit.
    helper->signalled = helper->guessed = true;
    helper->written_ns = clock.nanoseconds();
    ++helper->writes;
    LetRun(helper.get(), State::kRunning, Place::kLast);
    Changed();
  }
}

void HelperThreads::KickWaiter(Helper* helper, const void* object) {
  LockGuard guard(&lock_);
  if (helper->object == object && helper->kick != nullptr)
    helper->kick(helper);
}

}  // namespace vrank::host
