#include "emulator/store/store_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "emulator/store/absent_ranks.h"

namespace vrank::emulator {
namespace {

constexpr int kBacklog = 1024;

absl::Status SystemError(const char* what) {
  return absl::InternalError(
      fmt::format("store of the ranks: {}: {}", what, strerror(errno)));
}

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

absl::StatusOr<uint16_t> PortOf(int listener) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return SystemError("getsockname");
  return ntohs(address.sin_port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Create(uint16_t wanted_port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::unique_ptr<StoreServer> server(new StoreServer(listener, epoll, 0));
  if (listener < 0 || epoll < 0)
    return SystemError("opening descriptors");
  if (!BindLoopback(listener, wanted_port) && !BindLoopback(listener, 0))
    return SystemError("bind");
  if (listen(listener, kBacklog) != 0)
    return SystemError("listen");
  if (!Watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN))
    return SystemError("epoll_ctl");
  ASSIGN_OR_RETURN(const_cast<uint16_t&>(server->port_), PortOf(listener));
  return server;
}

StoreServer::StoreServer(int listener, int epoll, uint16_t port)
    : listener_(listener), epoll_(epoll), port_(port) {}

StoreServer::~StoreServer() {
  for (const auto& [fd, connection] : connections_)
    close(fd);
  for (const int fd : {listener_, epoll_})
    if (fd >= 0)
      close(fd);
}

void StoreServer::AcceptAll() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
      return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (Watch(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP))
      connections_[fd];
    else
      close(fd);
  }
}

absl::StatusOr<bool> StoreServer::HandleEvents() {
  std::array<epoll_event, 256> ready;  // what does not fit stays ready
  const int count = epoll_wait(epoll_, ready.data(), ready.size(), 0);
  bool requested = false;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[i].data.fd;
    if (fd == listener_) {
      AcceptAll();
      continue;
    }
    const auto found = connections_.find(fd);
    if (found == connections_.end())
      continue;
    if ((ready[i].events & EPOLLOUT) != 0)
      Flush(fd, &found->second);
    if ((ready[i].events & ~uint32_t{EPOLLOUT}) == 0)
      continue;
    ASSIGN_OR_RETURN(const bool open, Read(fd));
    requested = true;
    if (!open)
      Close(fd);
  }
  return requested;
}

absl::StatusOr<bool> StoreServer::Read(int fd) {
  Connection& connection = connections_[fd];
  for (;;) {
    char buffer[64 << 10];
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got > 0)
      connection.in.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      const bool open = got < 0 && errno == EAGAIN;
      RETURN_IF_ERROR(HandleRequests(fd, &connection));
      return open;
    }
  }
}

absl::Status StoreServer::HandleRequests(int fd, Connection* connection) {
  std::string_view rest = connection->in;
  KeyStore::Replies replies;
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<StoreRequest> request,
                     ReadStoreRequest(&rest));
    if (!request)
      break;
    if (request->operation == StoreRequest::Operation::kValidate) {
      if (request->number != kStoreMagic)
        return absl::InvalidArgumentError("a client speaks another protocol");
      connection->validated = in_use_ = true;
    } else if (!connection->validated) {
      return absl::InvalidArgumentError("a client did not introduce itself");
    }
    RETURN_IF_ERROR(keys_.Handle(fd, *request, &replies));
  }
  connection->in.erase(0, connection->in.size() - rest.size());
  Send(replies);
  return absl::OkStatus();
}

void StoreServer::Send(const KeyStore::Replies& replies) {
  for (const auto& [fd, bytes] : replies) {
    const auto found = connections_.find(fd);
    if (found == connections_.end())
      continue;
    found->second.out += bytes;
    Flush(fd, &found->second);
  }
}

// What does not go out now does when there is room. A client that has gone is noticed
// by its end of file.
void StoreServer::Flush(int fd, Connection* connection) {
  std::string& out = connection->out;
  while (!out.empty()) {
    const ssize_t sent = send(fd, out.data(), out.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && errno != EAGAIN)
      out.clear();
    if (sent <= 0)
      break;
    out.erase(0, static_cast<size_t>(sent));
  }
  Watch(epoll_, EPOLL_CTL_MOD, fd,
        EPOLLIN | EPOLLRDHUP | (out.empty() ? 0 : uint32_t{EPOLLOUT}));
}

void StoreServer::Close(int fd) {
  keys_.Forget(fd);
  connections_.erase(fd);
  close(fd);
}

absl::Status StoreServer::SetForAbsent() {
  KeyStore::Replies replies;
  for (const std::string& key : keys_.Missing()) {
    ASSIGN_OR_RETURN(std::string value, ValueOfAbsentRank(key));
    keys_.Set(key, std::move(value), &replies);
    ++set_for_absent_;
  }
  Send(replies);
  return absl::OkStatus();
}

}  // namespace vrank::emulator
