#include "virtual_host/wait/descriptor_wait.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/wait/epoll_turns.h"

namespace vrank::host {
namespace {

// A helper's poll looks at one descriptor more: an eventfd that ends it when its limit
// is reached. Kept for the life of the thread, out of the way of small numbers.
class PollWaker {
 public:
  ~PollWaker() {
    if (event_ >= 0)
      close(event_);
  }
  int event() {
    if (event_ < 0) {
      const int made = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
      event_ = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, kFirstDescriptor);
      if (event_ < 0)
        event_ = made;
      else
        close(made);
    }
    return event_;
  }
  Waking waking(ThreadScheduler::WaitsFor waits_for) {
    return event() < 0
               ? Waking{}
               : Waking{nullptr, Kick, static_cast<uint64_t>(event()), waits_for};
  }
  void Clear() {
    uint64_t count;
    (void)!Real().read(event_, &count, sizeof count);
  }

 private:
  static constexpr int kFirstDescriptor = 900;
  static void Kick(HostThread* helper) {
    const uint64_t one = 1;
    (void)!Real().write(static_cast<int>(helper->kick_argument), &one, sizeof one);
  }
  int event_ = -1;
};
thread_local PollWaker poll_waker;

// Whether another real rank may send something there: by a network socket.
bool MayHearOfPeers(GuestChannel* channel, const pollfd* descriptors, nfds_t count) {
  if (!protocol::HasRealPeers(channel->segment()->header.settings))
    return false;
  return std::any_of(descriptors, descriptors + count, [](const pollfd& one) {
    int family = 0;
    socklen_t bytes = sizeof family;
    return RawSyscall(SYS_getsockopt, one.fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes) ==
               0 &&
           (family == AF_INET || family == AF_INET6);
  });
}

}  // namespace

int WakingDescriptor() {
  return poll_waker.event();
}

bool WaitsAreSeen(GuestChannel* channel) {
  return channel->WaiterHere() != nullptr && poll_waker.event() >= 0;
}

int PollInTurn(GuestChannel* channel, pollfd* descriptors, nfds_t count,
               TimePoint deadline, const sigset_t* mask, const EpollTurns* turns) {
  constexpr int kTurn = -2;
  pollfd all[kMostDescriptors + 1];
  std::copy_n(descriptors, count, all);
  all[count] = pollfd{poll_waker.event(), POLLIN, 0};
  const Waking waking =
      poll_waker.waking(MayHearOfPeers(channel, descriptors, count)
                            ? ThreadScheduler::WaitsFor::kNetwork
                            : ThreadScheduler::WaitsFor::kDescriptors);
  const int result = WaitInSlices(channel, deadline, waking, [&](Duration slice) {
    const timespec real = ToTimespec(slice);
    const int ready = Real().ppoll(all, count + 1, &real, mask);
    if (all[count].revents == 0)
      return ready;
    poll_waker.Clear();
    return ready == 1 && turns != nullptr && turns->IsDue() ? kTurn : ready - 1;
  });
  for (nfds_t i = 0; i < count; ++i)
    descriptors[i].revents = all[i].revents;
  return result == kTurn ? 0 : result;
}

}  // namespace vrank::host
