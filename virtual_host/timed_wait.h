// When a wait with a time limit is over.
//
// The interposed waits wait on the real object in slices of real time and ask here
// between them. What a limit means depends on who waits:
//
//   - A thread that drives the clock: nothing passes while it waits, so its limit is
//     reached only when nothing else can satisfy the wait: nothing in this process ran,
//     and nobody asked the emulator, for as long in real time as the limit is long (at
//     most kPatience). Then the clock advances to the limit. Time in which other
//     threads of the process compute counts one sixteenth: they may be about to satisfy
//     the wait, but a thread that spins must not put off the limit for ever.
//   - Any other thread (watchdogs, loggers, other processes of the rank): the limit is
//     reached when the host clock has passed it. Should the clock stand still, it is
//     reached in real time, so that such a thread is never slower than in reality; the
//     clock is left alone.
//
// Thread rule: one object per wait, on the stack of the waiting thread.

#ifndef VRANK_VIRTUAL_HOST_TIMED_WAIT_H_
#define VRANK_VIRTUAL_HOST_TIMED_WAIT_H_

#include "base/guest/units.h"
#include "virtual_host/guest_channel.h"

namespace vrank::host {

class TimedWait {
 public:
  static constexpr Duration kPatience = Duration::Seconds(30);

  TimedWait(GuestChannel* channel, TimePoint deadline);

  // Real time that the next slice of waiting may take; zero once the limit has passed,
  // for one last look at the object.
  Duration NextSlice();
  // After a slice that ended without success: whether the limit is reached. Where this
  // thread drives the clock, the clock then stands at the limit.
  bool Expired();

 private:
  GuestChannel* const channel_;
  const TimePoint deadline_;
  const bool drives_;
  const Duration needed_;  // quiet (driving) or plain (other) real time
  Duration counted_;       // of it, so far
  Duration slice_;
  Duration slice_began_;   // real clock
  Duration cpu_at_slice_;  // of the process
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TIMED_WAIT_H_
