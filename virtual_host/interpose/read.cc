// Interposed: reads, and waits for processes, that may block. Where the calling
// thread's waits are to be known it first waits until there is something, as in a poll
// without a limit: it goes on in turn, and, as nobody says who wrote, at the time of
// the process.
//
// Left alone: descriptors that do not block, sockets with a limit of their own, and
// what the C library reads for itself (stdio). Several threads that read from one
// descriptor may each find it taken, and then wait unseen.

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/guest/export.h"
#include "virtual_host/process/process.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/thread_state.h"
#include "virtual_host/wait/descriptor_wait.h"

namespace vrank::host {
namespace {

// The channel, where the calling thread's waits are to be known.
GuestChannel* ChannelOfWaiter() {
  GuestChannel* const channel = ConnectedChannel();
  const bool seen = channel != nullptr && channel->scheduler().any() &&
                    thread_state.inside == 0 && WaitsAreSeen(channel);
  return seen ? channel : nullptr;
}

bool HasOwnLimit(int descriptor) {
  timeval limit{};
  socklen_t bytes = sizeof limit;
  return RawSyscall(SYS_getsockopt, descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit,
                    &bytes) == 0 &&
         (limit.tv_sec != 0 || limit.tv_usec != 0);
}

bool Blocks(int descriptor) {
  pollfd look{descriptor, POLLIN, 0};
  const timespec at_once{};
  if (Real().ppoll(&look, 1, &at_once, nullptr) != 0)
    return false;
  const long flags = RawSyscall(SYS_fcntl, descriptor, F_GETFL, 0);
  return flags >= 0 && (flags & O_NONBLOCK) == 0 && !HasOwnLimit(descriptor);
}

// Messages of Python's multiprocessing begin with their length, in 4 or 8 bytes
// (CPython, Lib/multiprocessing/connection.py). Longer reads are not distinguished:
// their sizes may depend on the data.
constexpr size_t kLongestHeader = 8, kAny = SIZE_MAX;

// An anchor of a process that moves no clock.
void Act(size_t bytes) {
  if (GuestChannel* const channel = ConnectedChannel())
    channel->Act(bytes <= kLongestHeader ? "read of a header" : "read");
}

// Recorded time passes before any other thread of its process continues with the data.
// Touches no errno.
void Pay() {
  const int saved_errno = errno;
  if (GuestChannel* const channel = ConnectedChannel())
    channel->PayRecorded();
  errno = saved_errno;
}

// False: a signal came, and errno says so.
bool AwaitReadable(GuestChannel* channel, int descriptor) {
  pollfd readable{descriptor, POLLIN, 0};
  return PollInTurn(channel, &readable, 1, TimePoint::Max(), nullptr, nullptr) >= 0;
}

template <typename Read>
auto InTurn(int descriptor, size_t bytes, Read read) -> decltype(read()) {
  const int saved_errno = errno;
  Act(bytes);
  GuestChannel* const channel = ChannelOfWaiter();
  if (channel != nullptr && Blocks(descriptor) && !AwaitReadable(channel, descriptor))
    return -1;
  errno = saved_errno;
  const auto result = read();
  Pay();
  return result;
}

// What a function says that waits for processes: it has found one.
pid_t Ended(pid_t process) {
  GuestChannel* const channel = process > 0 ? ConnectedChannel() : nullptr;
  if (channel != nullptr)
    channel->SpendTimeOfEnded();
  return process;
}

}  // namespace
}  // namespace vrank::host

using namespace vrank::host;

extern "C" {

VRANK_EXPORT ssize_t read(int descriptor, void* bytes, size_t count) {
  return InTurn(descriptor, count,
                [=] { return Real().read(descriptor, bytes, count); });
}

VRANK_EXPORT ssize_t readv(int descriptor, const iovec* parts, int count) {
  return InTurn(descriptor, kAny,
                [=] { return Real().readv(descriptor, parts, count); });
}

VRANK_EXPORT ssize_t recv(int socket, void* bytes, size_t count, int flags) {
  const auto receive = [=] { return Real().recv(socket, bytes, count, flags); };
  return (flags & MSG_DONTWAIT) != 0 ? receive() : InTurn(socket, kAny, receive);
}

VRANK_EXPORT ssize_t recvfrom(int socket, void* __restrict bytes, size_t count,
                              int flags, sockaddr* __restrict from,
                              socklen_t* __restrict from_bytes) {
  const auto receive = [=] {
    return Real().recvfrom(socket, bytes, count, flags, from, from_bytes);
  };
  return (flags & MSG_DONTWAIT) != 0 ? receive() : InTurn(socket, kAny, receive);
}

VRANK_EXPORT ssize_t recvmsg(int socket, msghdr* message, int flags) {
  const auto receive = [=] { return Real().recvmsg(socket, message, flags); };
  return (flags & MSG_DONTWAIT) != 0 ? receive() : InTurn(socket, kAny, receive);
}

VRANK_EXPORT int accept(int socket, sockaddr* __restrict from,
                        socklen_t* __restrict from_bytes) {
  return InTurn(socket, kAny, [=] { return Real().accept(socket, from, from_bytes); });
}

VRANK_EXPORT int accept4(int socket, sockaddr* __restrict from,
                         socklen_t* __restrict from_bytes, int flags) {
  return InTurn(socket, kAny,
                [=] { return Real().accept4(socket, from, from_bytes, flags); });
}

// Until the process has ended; who waits for any child does so unseen.
VRANK_EXPORT pid_t waitpid(pid_t pid, int* status, int options) {
  const int saved_errno = errno;
  GuestChannel* const channel = pid > 0 && options == 0 ? ChannelOfWaiter() : nullptr;
  const long process = channel == nullptr ? -1 : RawSyscall(SYS_pidfd_open, pid, 0);
  if (process >= 0) {
    const bool ended = AwaitReadable(channel, static_cast<int>(process));
    RawSyscall(SYS_close, process);
    if (!ended)
      return -1;
  }
  errno = saved_errno;
  return Ended(Real().waitpid(pid, status, options));
}

VRANK_EXPORT pid_t wait(int* status) {
  return Ended(Real().waitpid(-1, status, 0));
}

VRANK_EXPORT pid_t wait3(int* status, int options, rusage* usage) noexcept {
  return Ended(Real().wait4(-1, status, options, usage));
}

VRANK_EXPORT pid_t wait4(pid_t pid, int* status, int options, rusage* usage) noexcept {
  return Ended(Real().wait4(pid, status, options, usage));
}

VRANK_EXPORT int waitid(idtype_t type, id_t id, siginfo_t* info, int options) {
  const int result = Real().waitid(type, id, info, options);
  if (result == 0 && (options & WNOWAIT) == 0)
    Ended(1);
  return result;
}

}  // extern "C"
