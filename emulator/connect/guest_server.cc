#include "emulator/connect/guest_server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <utility>

#include <absl/status/status.h>
#include <fmt/format.h>

namespace vrank::emulator {
namespace {

// Processes that start at the same moment wait here; a rank may start many at once.
constexpr int kBacklog = 1024;

absl::Status SystemError(const char* what) {
  return absl::InternalError(
      fmt::format("socket of the ranks: {}: {}", what, strerror(errno)));
}

bool Watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

// Binds a name nobody can guess: the user's other sessions and other users cannot take
// it by accident.
absl::Status BindAbstract(int listener, std::string* name) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    return SystemError("getrandom");
  *name = fmt::format("vrank-{}-{:016x}", getpid(), random);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name->data(), name->size());  // [0] stays 0: abstract
  const socklen_t length = offsetof(sockaddr_un, sun_path) + 1 + name->size();
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0)
    return SystemError("bind");
  if (listen(listener, kBacklog) != 0)
    return SystemError("listen");
  return absl::OkStatus();
}

// Sends the reply, with the descriptors where the process is accepted. A process that
// has gone meanwhile is noticed through its connection.
void SendReply(int fd, const protocol::HelloReply& reply, int memfd, int doorbell) {
  iovec part{const_cast<protocol::HelloReply*>(&reply), sizeof reply};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  if (reply.accepted != 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(2 * sizeof(int));
    const int descriptors[2] = {memfd, doorbell};
    memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
  }
  [[maybe_unused]] const ssize_t sent =
      sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GuestServer>> GuestServer::Create() {
  // Messages keep their boundaries: a hello is one receive.
  const int listener =
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  const int doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::string name;
  absl::Status status;
  if (listener < 0 || epoll < 0 || doorbell < 0)
    status = SystemError("opening descriptors");
  else
    status = BindAbstract(listener, &name);
  if (status.ok() && !Watch(epoll, listener))
    status = SystemError("epoll_ctl");
  if (!status.ok()) {
    for (int fd : {listener, epoll, doorbell}) {
      if (fd >= 0)
        close(fd);
    }
    return status;
  }
  return std::unique_ptr<GuestServer>(
      new GuestServer(std::move(name), listener, epoll, doorbell));
}

GuestServer::GuestServer(std::string address, int listener, int epoll, int doorbell)
    : address_(std::move(address)),
      listener_(listener),
      epoll_(epoll),
      doorbell_(doorbell) {}

GuestServer::~GuestServer() {
  for (const auto& [fd, connection] : connections_)
    close(fd);
  close(listener_);
  close(epoll_);
  close(doorbell_);
}

void GuestServer::AddLink(GuestLink* link) {
  links_[link->settings().rank] = link;
}

void GuestServer::ClearDoorbell() {
  uint64_t rings;
  [[maybe_unused]] const ssize_t got = read(doorbell_, &rings, sizeof rings);
}

std::vector<GuestEvent> GuestServer::HandleEvents() {
  std::vector<GuestEvent> events;
  std::array<epoll_event, 256> ready;  // what does not fit stays ready
  const int count = epoll_wait(epoll_, ready.data(), ready.size(), 0);
  for (int i = 0; i < count; ++i) {
    if (ready[i].data.fd == listener_)
      AcceptAll();
    else
      ReadHello(ready[i].data.fd, &events);
  }
  return events;
}

void GuestServer::AcceptAll() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
      return;
    if (Watch(epoll_, fd))
      connections_[fd] = Connection{};
    else
      close(fd);  // the process reports that the connection has closed
  }
}

void GuestServer::ReadHello(int fd, std::vector<GuestEvent>* events) {
  Connection& connection = connections_[fd];
  protocol::Hello hello;
  const ssize_t got = recv(fd, &hello, sizeof hello, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (got <= 0 || connection.pid != 0)  // a second message is not in the protocol
    return Close(fd, events);

  ucred peer{};
  socklen_t length = sizeof peer;
  const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  std::string refusal = known && peer.uid == geteuid()
                            ? RefusalOf(hello, static_cast<size_t>(got))
                            : "vrank was started by another user";
  protocol::HelloReply reply{};
  if (!refusal.empty()) {
    refusal.copy(reply.reason, sizeof reply.reason - 1);
    events->push_back({GuestEvent::Kind::kRefused, hello.rank,
                       static_cast<uint32_t>(peer.pid), refusal});
    SendReply(fd, reply, -1, -1);
    return Close(fd, events);
  }
  // In a pid namespace of its own the process knows itself by another number than the
  // one in the credentials; owner_pid holds the process's own.
  connection = Connection{hello.pid, hello.rank, links_[hello.rank]};
  connection.link->ProcessConnected(hello.pid);
  events->push_back({GuestEvent::Kind::kConnected, hello.rank, hello.pid, ""});
  reply.accepted = 1;
  if (hello.wants_reply != 0)
    SendReply(fd, reply, connection.link->memfd(), doorbell_);
}

void GuestServer::Close(int fd, std::vector<GuestEvent>* events) {
  const Connection connection = connections_[fd];
  connections_.erase(fd);
  close(fd);  // also takes it out of the epoll set
  if (connection.link == nullptr)
    return;
  connection.link->ProcessDisconnected(connection.pid);
  events->push_back(
      {GuestEvent::Kind::kDisconnected, connection.rank, connection.pid, ""});
}

std::string GuestServer::RefusalOf(const protocol::Hello& hello, size_t bytes) const {
  if (bytes != sizeof hello || hello.magic != protocol::kMagic)
    return "this is not a guest library of this build; install vrank anew";
  if (hello.version != protocol::kVersion ||
      hello.segment_bytes != protocol::kSegmentBytes) {
    return fmt::format(
        "guest library speaks version {}, vrank version {}; install both from one "
        "build",
        hello.version, protocol::kVersion);
  }
  if (hello.pid == 0 || !links_.contains(hello.rank))
    return fmt::format("rank {} does not run for real here; is VRANK_RANK changed?",
                       hello.rank);
  return "";
}

}  // namespace vrank::emulator
