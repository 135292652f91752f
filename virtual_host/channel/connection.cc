#include "virtual_host/channel/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "schedule/policy.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/futex.h"

namespace vrank::host {
namespace {

using protocol::kRingBytes;
using protocol::kRingOffset;
using protocol::kSegmentBytes;

// Our descriptors live up here where the limit allows it, out of the way of programs
// that expect small numbers or close the ones they do not know.
constexpr int kFirstDescriptor = 900;

int MoveUp(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (moved < 0)
    return fd;
  close(fd);
  return moved;
}

// A forked child must not take the scheduler's lock: a thread that exists only in the
// parent may have held it during the fork. The interposed connect, sendto and recvmsg
// take that lock, so the functions below use raw system calls.

// Returns -1 and sets errno on failure. The abstract name starts with a 0 byte that
// VRANK_SOCKET leaves out.
int OpenSocket(const char* address) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -1;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const size_t length = strnlen(address, sizeof name.sun_path - 1);
  memcpy(name.sun_path + 1, address, length);
  const socklen_t bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  long result;
  do {
    result = RawSyscall(SYS_connect, fd, &name, bytes);
  } while (result == -EINTR);
  if (result != 0) {
    close(fd);
    errno = static_cast<int>(-result);  // a raw call leaves it alone
    return -1;
  }
  return MoveUp(fd);
}

bool SendHello(int fd, const Account& account, bool wants_reply) {
  protocol::Introduction message;
  message.token = account.token;
  protocol::Hello& hello = message.hello;
  hello.rank = account.rank;
  hello.pid = static_cast<uint32_t>(getpid());
  hello.wants_reply = wants_reply ? 1 : 0;
  return RawSyscall(SYS_sendto, fd, &message, sizeof message, MSG_NOSIGNAL, nullptr,
                    0) == sizeof message;
}

// From here on the end of the connection kills this process. False: vrank has gone
// already.
bool TieLifeTo(int leash) {
  fcntl(leash, F_SETOWN, getpid());
  fcntl(leash, F_SETSIG, SIGKILL);
  fcntl(leash, F_SETFL, fcntl(leash, F_GETFL) | O_ASYNC);
  // The end may have come before the leash was on.
  pollfd end{leash, POLLRDHUP, 0};
  timespec at_once{};
  return RawSyscall(SYS_ppoll, &end, 1, &at_once, 0, 0) <= 0;
}

bool OpenLeash(const Account& account, Connection* connection) {
  connection->leash = OpenSocket(account.address);
  return connection->leash >= 0 && SendHello(connection->leash, account, false) &&
         TieLifeTo(connection->leash);
}

// Receives; for a second without going to sleep: a process that another one of the
// rank has started must not look as if it waited (other_processes.h) before its waits
// can be seen.
ssize_t ReceiveAwake(int socket, msghdr* message) {
  const Duration patience = RealNow(CLOCK_MONOTONIC) + schedule::kConnect;
  for (int flags = MSG_CMSG_CLOEXEC | MSG_DONTWAIT;;) {
    const long got = RawSyscall(SYS_recvmsg, socket, message, flags);
    if (got >= 0 || (got != -EINTR && got != -EAGAIN))
      return got;
    if (RealNow(CLOCK_MONOTONIC) > patience)
      flags = MSG_CMSG_CLOEXEC;
    RawSyscall(SYS_sched_yield);
  }
}

bool ReceiveReply(int socket, protocol::HelloReply* reply, int* memfd, int* doorbell) {
  iovec part{reply, sizeof *reply};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (ReceiveAwake(socket, &message) != sizeof *reply)
    return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(2 * sizeof(int))) {
    int descriptors[2];
    memcpy(descriptors, CMSG_DATA(header), sizeof descriptors);
    *memfd = descriptors[0];
    *doorbell = descriptors[1];
  }
  return true;
}

}  // namespace

bool MapSegment(int memfd, Connection* connection) {
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  void* base = mmap(nullptr, kSegmentBytes + kRingBytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return false;
  auto* bytes = static_cast<unsigned char*>(base);
  if (mmap(bytes, kSegmentBytes, kProtection, MAP_SHARED | MAP_FIXED, memfd, 0) ==
          MAP_FAILED ||
      mmap(bytes + kSegmentBytes, kRingBytes, kProtection, MAP_SHARED | MAP_FIXED,
           memfd, kRingOffset) == MAP_FAILED) {
    munmap(base, kSegmentBytes + kRingBytes);
    return false;
  }
  connection->segment = static_cast<protocol::Segment*>(base);
  connection->ring = bytes + kRingOffset;
  return true;
}

protocol::SessionToken ReadToken(const char* digits) {
  protocol::SessionToken token{};
  if (digits == nullptr || strlen(digits) != 2 * token.size())
    return {};
  for (size_t i = 0; i < token.size(); ++i) {
    const char byte[3] = {digits[2 * i], digits[2 * i + 1], '\0'};
    char* end = nullptr;
    token[i] = static_cast<unsigned char>(strtoul(byte, &end, 16));
    if (end != byte + 2)
      return {};
  }
  return token;
}

bool Connect(const Account& account, Connection* connection, char* error,
             size_t error_bytes) {
  const int socket = OpenSocket(account.address);
  if (socket < 0) {
    snprintf(error, error_bytes,
             "no vrank listens at VRANK_SOCKET=%.60s (%s); start the program through "
             "vrank",
             account.address, strerror(errno));
    return false;
  }
  connection->socket = socket;
  protocol::HelloReply reply{};
  int memfd = -1;
  int doorbell = -1;
  // Where vrank has turned this process away already, only the reply can be had.
  (void)SendHello(socket, account, true);
  if (!ReceiveReply(socket, &reply, &memfd, &doorbell)) {
    snprintf(error, error_bytes, "vrank closed the connection; has it ended?");
    return false;
  }
  if (reply.accepted == 0 || memfd < 0) {
    snprintf(error, error_bytes, "vrank refuses this process: %.251s", reply.reason);
    return false;
  }
  connection->doorbell = MoveUp(doorbell);
  const bool mapped = MapSegment(memfd, connection);
  close(memfd);
  if (!mapped) {
    snprintf(error, error_bytes,
             "cannot map the shared segment: %s; is memory used up?", strerror(errno));
    return false;
  }
  const protocol::SegmentHeader& header = connection->segment->header;
  if (header.magic != protocol::kMagic || header.version != protocol::kVersion ||
      header.header_bytes != sizeof(protocol::Segment)) {
    snprintf(
        error, error_bytes,
        "the shared segment has version %u and %u bytes, this library expects %u and "
        "%zu; install vrank and its libraries from one build",
        header.version, header.header_bytes, protocol::kVersion,
        sizeof(protocol::Segment));
    return false;
  }
  if (!OpenLeash(account, connection)) {
    snprintf(error, error_bytes, "vrank ended while this process started");
    return false;
  }
  return true;
}

bool ConnectAfterFork(const Account& account, Connection* connection) {
  if (connection->socket >= 0)
    close(std::exchange(connection->socket, -1));
  close(connection->leash);
  return OpenLeash(account, connection);
}

}  // namespace vrank::host
