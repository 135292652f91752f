// When a wait with a time limit is over.
//
// The interposed waits wait on the real object in slices of real time and ask here
// between them. What a limit means depends on who waits:
//
//   - A thread that drives the clock: nothing passes while it waits, so its limit is
//     reached only when nothing else can satisfy the wait: the emulator, which sees the
//     whole session, finds that no thread of any process can run, and that this limit
//     is the earliest one. Then the clock advances to it. Its sleep beside other real
//     ranks ends likewise, but those that can only do what comes later may run.
//   - A helper thread (see thread_scheduler.h): before the clock passes the limit,
//   whoever
//     drives it stops and lets the helper run. Where no driver can run, the limit is
//     reached as that of a driver.
//   - A thread of a process whose clock another process moves: likewise, with that one
//     in the driver's part (see other_processes.h). Should that one be gone, it is
//     reached in real time.
//   - Anybody else (a debugger, a thread of this library): in real time, or once the
//     clock has passed the limit.
//
// Thread rule: one object per wait, on the stack of the waiting thread.

#ifndef VRANK_VIRTUAL_HOST_CHANNEL_TIMED_WAIT_H_
#define VRANK_VIRTUAL_HOST_CHANNEL_TIMED_WAIT_H_

#include <utility>

#include "base/guest/units.h"
#include "virtual_host/channel/guest_channel.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/thread_scheduler.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

// How to get a helper out of its wait before its slice ends.
struct Waking {
  const void* object = nullptr;     // what ThreadScheduler::Signal names
  HostThread::Kick kick = nullptr;  // nullptr: the slices are short instead
  uint64_t argument = 0;            // HostThread::kick_argument
  ThreadScheduler::WaitsFor waits_for = ThreadScheduler::WaitsFor::kObject;
};

class TimedWait {
 public:
  using Outcome = ThreadScheduler::Outcome;

  TimedWait(GuestChannel* channel, TimePoint deadline, Waking waking = {})
      : TimedWait(channel, channel->WaiterHere(), deadline, waking) {}
  // `helper`: as whom the calling thread waits; nullptr: not as one.
  TimedWait(GuestChannel* channel, HostThread* helper, TimePoint deadline,
            Waking waking);
  ~TimedWait();
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

  // Real time that the next slice of waiting may take; zero once the limit has passed,
  // for one last look at the object.
  Duration NextSlice();
  // After a slice that ended without success. kSignalled: the object was signalled
  // between two slices, in which case the program must look for itself.
  Outcome AfterSlice();
  // A helper that got out without a look: whether its limit is why.
  bool ExpiredMeanwhile();
  // A helper that has been woken by a signal: those that were woken before it go first.
  // Whether it has been.
  bool AwaitTurn();
  // One that got out of a wait for descriptors, likewise.
  void GotOut();
  // Calls take(), a helper's where what its object gives is for no other helper.
  // `called`: what AwaitTurn has said.
  template <typename Function>
  ThreadScheduler::Took Take(bool called, Function take) {
    if (who_ != Who::kHelper || passed_at_start_)
      return take() ? ThreadScheduler::Took::kYes : ThreadScheduler::Took::kNo;
    InsideScope inside;
    return channel_->scheduler().Take(*helper_, called, take);
  }
  // The signal was for another thread: the wait goes on, unless somebody has written
  // since BeginLook.
  void GoOn();
  // It looks whether the signal was for it.
  void BeginLook();
  bool Expired() { return AfterSlice() == Outcome::kExpired; }
  // A slice of waiting for nothing but the limit, which the emulator knows from its
  // beginning. False: a signal ended it.
  bool Sleep();

 private:
  enum class Who { kDriver, kHelper, kOther, kAside };

  void Follow();
  void Leave();
  bool CountedOut();

  GuestChannel* const channel_;
  const TimePoint deadline_;
  HostThread* const helper_;
  Who who_;
  const Duration longest_;
  ThreadScheduler::DriverWait driver_wait_;
  bool passed_at_start_ = false;
  Duration slice_;
  OtherLimit other_limit_;
  Duration slice_began_;  // real clock; kOther and kAside only, as is the rest
  Duration needed_;
  Duration counted_;
};

// Gets a helper out of a wait for its word.
void KickWord(HostThread* helper);

// A helper waits until take() is true, for what cannot be woken without being given
// away: it waits for a word of its own, which CallByWord kicks, too. False: the limit
// was reached.
template <typename TakeIt>
bool WaitByWord(GuestChannel* channel, HostThread* helper, const void* object,
                TimePoint deadline, TakeIt take_it) {
  {
    InsideScope inside;
    channel->scheduler().Touch(helper, channel->ProcessNow());
    if (channel->scheduler().TakeAtOnce(helper, object, take_it))
      return true;
  }
  TimedWait timed(channel, helper, deadline, {object, KickWord});
  bool slept = false;
  for (;;) {
    const uint32_t before = helper->word.load();
    const bool called = timed.AwaitTurn();
    const ThreadScheduler::Took took = timed.Take(called, take_it);
    if (took == ThreadScheduler::Took::kYes)
      return true;
    if (took == ThreadScheduler::Took::kNotYet)
      continue;
    if (called)
      timed.GoOn();  // another thread took it
    if (std::exchange(slept, false)) {
      const TimedWait::Outcome outcome = timed.AfterSlice();
      if (outcome == TimedWait::Outcome::kExpired)
        return false;
      if (outcome == TimedWait::Outcome::kSignalled)
        continue;
    }
    FutexWait(&helper->word, before, timed.NextSlice(), /*shared=*/false);
    slept = true;
  }
}
// Calls give(), which gives the object to whoever has waited longest for it, and nobody
// else. False: nobody waits. Else the caller owes a stop (ThreadScheduler::Woken).
template <typename Give>
bool CallByWord(GuestChannel* channel, const void* object, Give give) {
  ThreadScheduler& scheduler = channel->scheduler();
  HostThread* next = nullptr;
  ThreadScheduler::WakeScope waking(&scheduler);
  if (scheduler.any() && thread_state.inside == 0) {
    const TimePoint clock = channel->Peek();
    InsideScope inside;
    next = scheduler.SignalFirst(object, clock);
  }
  give();
  if (next != nullptr) {
    InsideScope inside;
    scheduler.KickWaiter(next, object);
  }
  return next != nullptr;
}

// The calling thread sleeps until others have moved the clock there, or nobody can run.
void SleepAsHelper(GuestChannel* channel, HostThread* helper, TimePoint deadline);

// Likewise a thread that drives no clock and is no helper. Returns 0, or EINTR where a
// signal ended the sleep.
int SleepAsFollower(GuestChannel* channel, TimePoint deadline);

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_CHANNEL_TIMED_WAIT_H_
