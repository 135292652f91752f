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
#include <string_view>
#include <utility>

#include <absl/status/status.h>
#include <fmt/format.h>

namespace vrank::emulator {
namespace {

// Processes that start at the same moment wait here; a rank may start many at once.
constexpr int kBacklog = 1024;
constexpr char kOtherUser[] = "vrank was started by another user";

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

// Sends the reason for a refusal.
void Reply(int fd, std::string_view reason) {
  protocol::HelloReply reply{};
  reason.copy(reply.reason, sizeof reply.reason - 1);
  SendReply(fd, reply, -1, -1);
}

// "process 123: ", for messages; empty where the kernel does not report it.
std::string WhoConnects(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid == 0)
    return "";
  return fmt::format("process {}: ", peer.pid);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GuestServer>> GuestServer::Create(
    Acceptor::PeerOf peer_of, Acceptor::Limits limits) {
  protocol::SessionToken token;
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
    return SystemError("getrandom");
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
  std::unique_ptr<GuestServer> server(new GuestServer(
      std::move(name), token, listener, epoll, doorbell, std::move(peer_of), limits));
  status.Update(server->acceptor_.Check());
  if (!status.ok())
    return status;
  return server;
}

GuestServer::GuestServer(std::string address, const protocol::SessionToken& token,
                         int listener, int epoll, int doorbell,
                         Acceptor::PeerOf peer_of, Acceptor::Limits limits)
    : address_(std::move(address)),
      token_(token),
      listener_(listener),
      epoll_(epoll),
      doorbell_(doorbell),
      strangers_("socket of the ranks"),
      acceptor_(listener, epoll, std::move(peer_of), this, &strangers_, limits) {}

GuestServer::~GuestServer() {
  for (const auto& [fd, connection] : connections_)
    close(fd);
  for (const int fd : {listener_, epoll_, doorbell_})
    if (fd >= 0)
      close(fd);
}

std::string GuestServer::token() const {
  std::string digits;
  for (const unsigned char byte : token_)
    digits += fmt::format("{:02x}", byte);
  return digits;
}

void GuestServer::AddLink(GuestLink* link) {
  links_[link->settings().rank] = link;
}

void GuestServer::ClearDoorbell() {
  uint64_t rings;
  [[maybe_unused]] const ssize_t got = read(doorbell_, &rings, sizeof rings);
}

std::vector<GuestEvent> GuestServer::HandleEvents() {
  std::array<epoll_event, 256> ready;  // what does not fit stays ready
  const int count = epoll_wait(epoll_, ready.data(), ready.size(), 0);
  bool arrivals = false;
  for (int i = 0; i < count; ++i) {
    if (acceptor_.Watches(ready[i].data.fd))
      arrivals = true;
    else if (connections_.contains(ready[i].data.fd))
      ReadHello(ready[i].data.fd);
  }
  // Behind the others: a process that has introduced itself meanwhile makes room.
  if (arrivals)
    status_.Update(acceptor_.AcceptAll());
  return std::exchange(events_, {});
}

void GuestServer::Accepted(int fd) {
  connections_[fd] = Connection{};
  if (!Watch(epoll_, fd))
    Close(fd);  // the process reports that the connection has closed
}

void GuestServer::Refused(int fd) {
  protocol::Introduction unread;  // it would make the process miss the reply
  [[maybe_unused]] const ssize_t got = recv(fd, &unread, sizeof unread, MSG_DONTWAIT);
  Reply(fd, kOtherUser);
}

void GuestServer::Expired(int fd) {
  ReadHello(fd);
  const auto found = connections_.find(fd);
  if (found == connections_.end() || found->second.pid != 0)
    return;
  strangers_.Count(Strangers::kSilent, "it did not introduce itself");
  Close(fd);
}

void GuestServer::ReadHello(int fd) {
  Connection& connection = connections_.at(fd);
  protocol::Introduction message;
  const ssize_t got = recv(fd, &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (got <= 0 || connection.pid != 0)  // a second message is not in the protocol
    return Close(fd);

  if (const std::string reason = StrangenessOf(message, static_cast<size_t>(got));
      !reason.empty()) {
    strangers_.Count(Strangers::kMalformed,
                     fmt::format("{}{}", WhoConnects(fd), reason));
    Reply(fd, reason);
    return Close(fd);
  }
  const protocol::Hello& hello = message.hello;
  if (const std::string refusal = RefusalOf(hello); !refusal.empty()) {
    events_.push_back({GuestEvent::Kind::kRefused, hello.rank, hello.pid, refusal});
    Reply(fd, refusal);
    return Close(fd);
  }
  // In a pid namespace of its own the process knows itself by another number than the
  // one in the credentials; owner_pid holds the process's own.
  connection = Connection{hello.pid, hello.rank, links_[hello.rank]};
  acceptor_.Introduced(fd);
  connection.link->ProcessConnected(hello.pid);
  events_.push_back({GuestEvent::Kind::kConnected, hello.rank, hello.pid, ""});
  protocol::HelloReply reply{};
  reply.accepted = 1;
  if (hello.wants_reply != 0)
    SendReply(fd, reply, connection.link->memfd(), doorbell_);
}

void GuestServer::Close(int fd) {
  const Connection connection = connections_[fd];
  connections_.erase(fd);
  acceptor_.Forget(fd);
  close(fd);  // also takes it out of the epoll set
  if (connection.link == nullptr)
    return;
  connection.link->ProcessDisconnected(connection.pid);
  events_.push_back(
      {GuestEvent::Kind::kDisconnected, connection.rank, connection.pid, ""});
}

std::string GuestServer::StrangenessOf(const protocol::Introduction& message,
                                       size_t bytes) const {
  if (bytes != sizeof message || message.hello.magic != protocol::kMagic)
    return "this is not a guest library of this build; install vrank anew";
  if (message.token != token_)
    return "VRANK_TOKEN is not this session's; start the program through vrank";
  return "";
}

std::string GuestServer::RefusalOf(const protocol::Hello& hello) const {
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
