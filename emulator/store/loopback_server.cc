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
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank::emulator {
namespace {

constexpr int kBacklog = 1024;

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
    uint16_t wanted_port, const char* what, Owner* owner) {
  const auto error = [what](const char* call) {
    return absl::InternalError(fmt::format("{}: {}: {}", what, call, strerror(errno)));
  };
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::unique_ptr<LoopbackServer> server(new LoopbackServer(listener, epoll, owner));
  if (listener < 0 || epoll < 0)
    return error("opening descriptors");
  if (!BindLoopback(listener, wanted_port) && !BindLoopback(listener, 0))
    return error("bind");
  if (listen(listener, kBacklog) != 0)
    return error("listen");
  if (!Watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN))
    return error("epoll_ctl");
  sockaddr_in address{};
  socklen_t length = sizeof address;
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return error("getsockname");
  server->port_ = ntohs(address.sin_port);
  return server;
}

LoopbackServer::LoopbackServer(int listener, int epoll, Owner* owner)
    : listener_(listener), epoll_(epoll), owner_(owner) {}

LoopbackServer::~LoopbackServer() {
  for (const auto& [client, connection] : connections_)
    close(client);
  for (const int fd : {listener_, epoll_})
    if (fd >= 0)
      close(fd);
}

absl::Status LoopbackServer::AcceptAll() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
      return absl::ResourceExhaustedError(fmt::format(
          "{} connections of real ranks are open, and no more can be ({}); raise the "
          "limit (ulimit -n) above the ranks of the largest Gloo group",
          connections_.size(), strerror(errno)));
    if (fd < 0)
      return absl::OkStatus();
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (Watch(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP))
      connections_[fd];
    else
      close(fd);
  }
}

absl::StatusOr<bool> LoopbackServer::HandleEvents() {
  std::array<epoll_event, 256> ready;  // what does not fit stays ready
  const int count = epoll_wait(epoll_, ready.data(), ready.size(), 0);
  bool came = false;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[i].data.fd;
    if (fd == listener_) {
      RETURN_IF_ERROR(AcceptAll());
      continue;
    }
    const auto found = connections_.find(fd);
    if (found == connections_.end())
      continue;
    if ((ready[i].events & EPOLLOUT) != 0)
      Flush(fd, &found->second);
    if ((ready[i].events & ~uint32_t{EPOLLOUT}) == 0)
      continue;
    ASSIGN_OR_RETURN(const bool open, Read(fd, &found->second));
    came = true;
    if (!open) {
      owner_->Gone(fd);
      connections_.erase(fd);
      close(fd);
    }
  }
  return came;
}

absl::StatusOr<bool> LoopbackServer::Read(Client client, Connection* connection) {
  for (;;) {
    char buffer[64 << 10];
    const ssize_t got = read(client, buffer, sizeof buffer);
    if (got > 0)
      connection->in.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      const bool open = got < 0 && errno == EAGAIN;
      RETURN_IF_ERROR(owner_->Received(client, &connection->in));
      return open;
    }
  }
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
  Watch(epoll_, EPOLL_CTL_MOD, client,
        EPOLLIN | EPOLLRDHUP | (out.empty() ? 0 : uint32_t{EPOLLOUT}));
}

}  // namespace vrank::emulator
