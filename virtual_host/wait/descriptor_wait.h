// How a helper waits for descriptors, or one of several threads that issue work: so
// that drivers know that it waits, and its end comes in turn (thread_scheduler.h).
//
// Thread rule: thread-safe.

#ifndef VRANK_VIRTUAL_HOST_WAIT_DESCRIPTOR_WAIT_H_
#define VRANK_VIRTUAL_HOST_WAIT_DESCRIPTOR_WAIT_H_

#include <poll.h>

#include "virtual_host/channel/guest_channel.h"
#include "virtual_host/channel/timed_wait.h"

namespace vrank::host {

class EpollTurns;

// More of them are waited for without that.
inline constexpr nfds_t kMostDescriptors = 64;

// Whether the calling thread's waits are to be known.
bool WaitsAreSeen(GuestChannel* channel);

// ppoll by one whose waits are. `turns`: ends it with 0 once a turn is due in real
// time; may be nullptr. REQUIRES: at most kMostDescriptors.
int PollInTurn(GuestChannel* channel, pollfd* descriptors, nfds_t count,
               TimePoint deadline, const sigset_t* mask, const EpollTurns* turns);

// Its wait's eventfd, by which others end it; -1: there is none.
int WakingDescriptor();

// Calls wait(slice of real time) until something is ready, a signal came, or the limit
// has passed. What is ready at once is taken without seeming to wait.
template <typename Wait>
int WaitInSlices(GuestChannel* channel, TimePoint deadline, Waking waking, Wait wait) {
  channel->LookAnew();
  const HostThread* const self = GuestChannel::Turn();
  // Whether it has to wait at all for what another rank has sent is chance.
  bool keeps_turn =
      self != nullptr && waking.waits_for == ThreadScheduler::WaitsFor::kNetwork;
  int result = wait(Duration());
  if (result == 0) {
    {
      TimedWait timed(channel, deadline, waking);
      TimedWait::Outcome outcome = TimedWait::Outcome::kWaits;
      do {
        result = wait(timed.NextSlice());
        if (result == 0)
          outcome = timed.AfterSlice();
        if (result == 0 && outcome == TimedWait::Outcome::kSignalled) {
          // It was seen awake between two slices, perhaps after a write.
          timed.BeginLook();
          result = wait(Duration());
          if (result == 0)
            timed.GoOn();
        }
      } while (result == 0 && outcome != TimedWait::Outcome::kExpired);
      if (result != 0)
        timed.GotOut();
    }
    keeps_turn = keeps_turn && self->kept_turn;
  }
  if (!keeps_turn)
    channel->LetHelpersRun();
  return result;
}

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_WAIT_DESCRIPTOR_WAIT_H_
