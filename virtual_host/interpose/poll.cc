// Interposed: waits for descriptors. A limit is a length of virtual time, see
// TimedWait; with one of zero the call is left alone. A wait without a limit, but for
// select's, is one whose end comes in turn, as that of a helper, or of one of several
// threads that issue work.
//
// epoll_pwait2 rounds its limit up to a millisecond here, and select with sets of
// more than FD_SETSIZE descriptors keeps its limit in real time.

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include <algorithm>
#include <cerrno>

#include "base/guest/export.h"
#include "schedule/policy.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/process/process.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/wait/descriptor_wait.h"
#include "virtual_host/wait/epoll_turns.h"

namespace vrank::host {
namespace {

// A limit of that length from now on; nullptr: there is none.
TimePoint LimitOf(GuestChannel* channel, const timespec* length) {
  return length == nullptr ? TimePoint::Max() : channel->Now() + FromTimespec(*length);
}

// The channel where a wait of this length is to be virtual, else nullptr.
GuestChannel* ChannelFor(const timespec* limit) {
  if (limit != nullptr && ((limit->tv_sec == 0 && limit->tv_nsec == 0) ||
                           limit->tv_sec < 0 || limit->tv_nsec < 0))
    return nullptr;
  return ProcessChannel();
}

// A wait without a limit by a thread whose waits need not be known.
template <typename Wait>
int WaitForEver(GuestChannel* channel, Wait wait) {
  const int result = wait();
  channel->LetHelpersRun();
  return result;
}

// A sleep of a process that moves no clock: -1 where a signal ended it.
int Sleep(GuestChannel* channel, TimePoint deadline) {
  const int error = SleepAsFollower(channel, deadline);
  if (error == 0)
    return 0;
  errno = error;
  return -1;
}

int EpollWait(int epoll, epoll_event* events, int capacity, int milliseconds,
              const sigset_t* mask) {
  GuestChannel* const channel = milliseconds != 0 ? ProcessChannel() : nullptr;
  if (channel == nullptr)
    return Real().epoll_pwait(epoll, events, capacity, milliseconds, mask);
  const bool limited = milliseconds > 0;
  const timespec length = ToTimespec(Duration::Milliseconds(milliseconds));
  const TimePoint deadline = LimitOf(channel, limited ? &length : nullptr);
  if (WaitsAreSeen(channel)) {
    EpollTurns* const turns = limited && milliseconds <= schedule::kLongestEpollTurn
                                  ? TurnsOf(epoll)
                                  : nullptr;
    if (turns != nullptr) {
      turns->Begin(WakingDescriptor());
      if (turns->IsDue()) {
        turns->End();
        return Real().epoll_pwait(epoll, events, capacity, turns->Take(), mask);
      }
    }
    pollfd ready{epoll, POLLIN, 0};
    const int result = PollInTurn(channel, &ready, 1, deadline, mask, turns);
    if (turns != nullptr)
      turns->End();
    return result <= 0 ? result : Real().epoll_pwait(epoll, events, capacity, 0, mask);
  }
  if (!limited)
    return WaitForEver(
        channel, [=] { return Real().epoll_pwait(epoll, events, capacity, -1, mask); });
  return WaitInSlices(channel, deadline, {}, [=](Duration slice) {
    const int64_t rounded_up = (slice.nanoseconds() + 999'999) / 1'000'000;
    return Real().epoll_pwait(epoll, events, capacity, static_cast<int>(rounded_up),
                              mask);
  });
}

int AsNewSet(int epoll) {
  if (EpollTurns* const turns = TurnsOf(epoll))
    turns->Forget();
  return epoll;
}

struct SelectSets {
  fd_set* in_out[3];
  fd_set asked[3] = {};

  SelectSets(fd_set* read, fd_set* write, fd_set* except)
      : in_out{read, write, except} {
    for (int i = 0; i < 3; ++i) {
      if (in_out[i] != nullptr)
        asked[i] = *in_out[i];
    }
  }
  bool Empty() const {
    return std::all_of(in_out, in_out + 3, [](fd_set* set) { return set == nullptr; });
  }
  // Every slice that ends without a result has emptied the sets.
  void Restore() {
    for (int i = 0; i < 3; ++i) {
      if (in_out[i] != nullptr)
        *in_out[i] = asked[i];
    }
  }
};

int Select(int count, fd_set* read, fd_set* write, fd_set* except,
           const timespec* limit, const sigset_t* mask) {
  GuestChannel* const channel = ChannelFor(limit);
  if (channel == nullptr || limit == nullptr || count > FD_SETSIZE)
    return Real().pselect(count, read, write, except, limit, mask);
  SelectSets sets(read, write, except);
  if (mask == nullptr && sets.Empty() && channel->FollowsClock())
    return Sleep(channel, LimitOf(channel, limit));
  return WaitInSlices(channel, LimitOf(channel, limit), {}, [&](Duration slice) {
    sets.Restore();
    const timespec real = ToTimespec(slice);
    return Real().pselect(count, read, write, except, &real, mask);
  });
}

}  // namespace
}  // namespace vrank::host

using namespace vrank;
using namespace vrank::host;

extern "C" {

VRANK_EXPORT int ppoll(pollfd* descriptors, nfds_t count, const timespec* limit,
                       const sigset_t* mask) {
  GuestChannel* const channel = ChannelFor(limit);
  if (channel == nullptr)
    return Real().ppoll(descriptors, count, limit, mask);
  const TimePoint deadline = LimitOf(channel, limit);
  if (count == 0 && limit != nullptr && mask == nullptr && channel->FollowsClock())
    return Sleep(channel, deadline);
  if (count <= kMostDescriptors && WaitsAreSeen(channel))
    return PollInTurn(channel, descriptors, count, deadline, mask, nullptr);
  if (limit == nullptr)
    return WaitForEver(channel,
                       [=] { return Real().ppoll(descriptors, count, nullptr, mask); });
  return WaitInSlices(channel, deadline, {}, [=](Duration slice) {
    const timespec real = ToTimespec(slice);
    return Real().ppoll(descriptors, count, &real, mask);
  });
}

VRANK_EXPORT int poll(pollfd* descriptors, nfds_t count, int milliseconds) {
  const timespec limit = ToTimespec(Duration::Milliseconds(std::max(milliseconds, 0)));
  return ppoll(descriptors, count, milliseconds < 0 ? nullptr : &limit, nullptr);
}

VRANK_EXPORT int pselect(int count, fd_set* __restrict read, fd_set* __restrict write,
                         fd_set* __restrict except, const timespec* __restrict limit,
                         const sigset_t* __restrict mask) {
  return Select(count, read, write, except, limit, mask);
}

VRANK_EXPORT int select(int count, fd_set* __restrict read, fd_set* __restrict write,
                        fd_set* __restrict except, timeval* __restrict limit) {
  if (limit == nullptr)
    return Select(count, read, write, except, nullptr, nullptr);
  const timespec precise{limit->tv_sec, limit->tv_usec * 1000};
  const int result = Select(count, read, write, except, &precise, nullptr);
  if (result == 0)
    *limit = timeval{};  // as Linux does: what is left of the limit
  return result;
}

VRANK_EXPORT int epoll_pwait(int epoll, epoll_event* events, int capacity,
                             int milliseconds, const sigset_t* mask) {
  return EpollWait(epoll, events, capacity, milliseconds, mask);
}

VRANK_EXPORT int epoll_create(int size) noexcept {
  return AsNewSet(Real().epoll_create(size));
}

VRANK_EXPORT int epoll_create1(int flags) noexcept {
  return AsNewSet(Real().epoll_create1(flags));
}

VRANK_EXPORT int epoll_ctl(int epoll, int operation, int descriptor,
                           epoll_event* event) noexcept {
  const int result = Real().epoll_ctl(epoll, operation, descriptor, event);
  EpollTurns* const turns = operation == EPOLL_CTL_DEL ? TurnsOf(epoll) : nullptr;
  if (result == 0 && turns != nullptr)
    turns->OnRemoval();
  return result;
}

VRANK_EXPORT int epoll_wait(int epoll, epoll_event* events, int capacity,
                            int milliseconds) {
  return EpollWait(epoll, events, capacity, milliseconds, nullptr);
}

VRANK_EXPORT int epoll_pwait2(int epoll, epoll_event* events, int capacity,
                              const timespec* limit, const sigset_t* mask) noexcept {
  if (limit == nullptr)
    return EpollWait(epoll, events, capacity, -1, mask);
  const int64_t nanoseconds = FromTimespec(*limit).nanoseconds();
  const int64_t milliseconds = (nanoseconds + 999'999) / 1'000'000;
  return EpollWait(epoll, events, capacity,
                   static_cast<int>(std::min<int64_t>(milliseconds, 1 << 30)), mask);
}

}  // extern "C"
