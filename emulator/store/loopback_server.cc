#include "emulator/store/loopback_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank::emulator {
namespace {

constexpr int kBacklog = 1024;
constexpr size_t kReadBytes = size_t{64} << 10;
constexpr int kReadsAtOnce = 16;

bool Watch(int epoll, int operation, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(epoll, operation, fd, &event) == 0;
}

bool BindLoopback(int listener, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoopbackServer>> LoopbackServer::Create(
    uint16_t wanted_port, const char* what, Owner* owner, Acceptor::PeerOf peer_of,
    Acceptor::Limits limits) {
  const auto error = [what](const char* call) {
    return absl::InternalError(fmt::format("{}: {}: {}", what, call, strerror(errno)));
  };
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::unique_ptr<LoopbackServer> server(
      new LoopbackServer(listener, epoll, what, owner, std::move(peer_of), limits));
  if (listener < 0 || epoll < 0)
    return error("opening descriptors");
  if (!BindLoopback(listener, wanted_port) && !BindLoopback(listener, 0))
    return error("bind");
  if (listen(listener, kBacklog) != 0)
    return error("listen");
  if (const absl::Status status = server->acceptor_.Check(); !status.ok())
    return absl::Status(status.code(),
                        fmt::format("{}: {}", what, std::string(status.message())));
  sockaddr_in address{};
  socklen_t length = sizeof address;
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return error("getsockname");
  server->port_ = ntohs(address.sin_port);
  return server;
}

LoopbackServer::LoopbackServer(int listener, int epoll, const char* what, Owner* owner,
                               Acceptor::PeerOf peer_of, Acceptor::Limits limits)
    : listener_(listener),
      epoll_(epoll),
      owner_(owner),
      strangers_(what),
      acceptor_(listener, epoll,
                peer_of ? std::move(peer_of)
                        : Acceptor::PeerOf([this](int fd) { return peers_.Of(fd); }),
                this, &strangers_, limits) {}

LoopbackServer::~LoopbackServer() {
  for (const auto& [client, connection] : connections_)
    close(client);
  for (const int fd : {listener_, epoll_})
    if (fd >= 0)
      close(fd);
}

absl::StatusOr<bool> LoopbackServer::HandleEvents() {
  std::array<epoll_event, 256> ready;  // what does not fit stays ready
  const int count = epoll_wait(epoll_, ready.data(), ready.size(), 0);
  bool came = false;
  bool arrivals = false;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[i].data.fd;
    if (acceptor_.Watches(fd)) {
      arrivals = true;
      continue;
    }
    const auto found = connections_.find(fd);
    if (found == connections_.end())
      continue;
    const uint32_t events = ready[i].events;
    // Requests that waited for room are read now.
    const bool news = (events & ~uint32_t{EPOLLOUT}) != 0 || Congested(fd);
    const bool introduced = found->second.introduced;
    if ((events & EPOLLOUT) != 0)
      Flush(fd, &found->second);
    if (Congested(fd) && (events & (EPOLLHUP | EPOLLERR)) != 0) {
      Close(fd);  // it will never read what waits
      came |= introduced;
      continue;
    }
    if (!news)
      continue;
    RETURN_IF_ERROR(Serve(fd));
    const auto served = connections_.find(fd);
    came |= introduced || (served != connections_.end() && served->second.introduced);
  }
  // Behind the others: a client that has introduced itself meanwhile makes room.
  if (arrivals)
    RETURN_IF_ERROR(acceptor_.AcceptAll());
  RETURN_IF_ERROR(error_);
  return came;
}

void LoopbackServer::Accepted(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  connections_[fd];
  if (!Watch(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP))
    Close(fd);
}

void LoopbackServer::Expired(int fd) {
  error_.Update(Serve(fd));
  const auto found = connections_.find(fd);
  if (found == connections_.end() || found->second.introduced)
    return;
  strangers_.Count(Strangers::kSilent, "it did not introduce itself");
  Close(fd);
}

void LoopbackServer::Introduced(Client client) {
  connections_.at(client).introduced = true;
  acceptor_.Introduced(client);
}

bool LoopbackServer::Congested(Client client) const {
  const auto found = connections_.find(client);
  return found != connections_.end() && found->second.out.size() > kMostWaiting;
}

size_t LoopbackServer::bytes_waiting() const {
  size_t bytes = 0;
  for (const auto& [client, connection] : connections_)
    bytes += connection.out.size();
  return bytes;
}

absl::Status LoopbackServer::Serve(Client client) {
  Connection& connection = connections_.at(client);
  bool open = Congested(client) || Read(client, &connection);
  RETURN_IF_ERROR(HandOn(client, &connection, &open));
  if (!open)
    Close(client);
  return absl::OkStatus();
}

bool LoopbackServer::Read(Client client, Connection* connection) {
  // The rest stays readable: one busy client leaves time for the others.
  for (int reads = 0; reads < kReadsAtOnce;) {
    char buffer[kReadBytes];
    const ssize_t got = read(client, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got < 0 && errno == EAGAIN;
    connection->in.append(buffer, static_cast<size_t>(got));
    ++reads;
  }
  return true;
}

absl::Status LoopbackServer::HandOn(Client client, Connection* connection, bool* open) {
  const absl::Status status = owner_->Received(client, &connection->in);
  if (!absl::IsInvalidArgument(status))
    return status;
  strangers_.Count(Strangers::kMalformed, std::string(status.message()));
  *open = false;
  return absl::OkStatus();
}

void LoopbackServer::Close(Client client) {
  owner_->Gone(client);
  acceptor_.Forget(client);
  connections_.erase(client);
  close(client);
}

void LoopbackServer::Send(Client client, std::string_view bytes) {
  const auto found = connections_.find(client);
  if (found == connections_.end())
    return;
  found->second.out += bytes;
  Flush(client, &found->second);
}

uint16_t LoopbackServer::PortOf(Client client) const {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  return connections_.contains(client) &&
                 getpeername(client, reinterpret_cast<sockaddr*>(&address), &length) ==
                     0
             ? ntohs(address.sin_port)
             : uint16_t{0};
}

void LoopbackServer::EndSending(Client client) {
  if (connections_.contains(client))
    shutdown(client, SHUT_WR);
}

// What does not go out now does when there is room. A client that has gone is noticed
// by its end of file.
void LoopbackServer::Flush(Client client, Connection* connection) {
  std::string& out = connection->out;
  size_t sent = 0;
  while (sent < out.size()) {
    const ssize_t now =
        send(client, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR)
      continue;
    if (now < 0 && errno != EAGAIN)
      sent = out.size();
    if (now <= 0)
      break;
    sent += static_cast<size_t>(now);
  }
  out.erase(0, sent);
  uint32_t events = out.empty() ? 0 : uint32_t{EPOLLOUT};
  if (!Congested(client))
    events |= EPOLLIN | EPOLLRDHUP;
  Watch(epoll_, EPOLL_CTL_MOD, client, events);
}

}  // namespace vrank::emulator
