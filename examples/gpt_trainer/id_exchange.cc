// Plain blocking sockets: this runs once, for 128 bytes per rank.

#include "examples/gpt_trainer/id_exchange.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

namespace gpt {
namespace {

constexpr std::chrono::seconds kConnectPatience{60};
constexpr std::chrono::milliseconds kRetryInterval{100};

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) {
      close(descriptor_);
    }
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;

  int get() const { return descriptor_; }
  bool valid() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

[[noreturn]] void Throw(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

void SendAll(const Socket& socket, const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket.get(), next, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent <= 0) {
      Throw("sending the NCCL id");
    }
    next += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void ReceiveAll(const Socket& socket, void* data, size_t bytes) {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t received = recv(socket.get(), next, bytes, 0);
    if (received < 0 && errno == EINTR) {
      continue;
    }
    if (received == 0) {
      throw std::runtime_error("receiving the NCCL id: rank 0 closed the connection");
    }
    if (received < 0) {
      Throw("receiving the NCCL id");
    }
    next += received;
    bytes -= static_cast<size_t>(received);
  }
}

Socket TryConnect(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw std::runtime_error("MASTER_ADDR '" + address + "': " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Socket candidate(socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC,
                            entry->ai_protocol));
    if (candidate.valid() &&
        connect(candidate.get(), entry->ai_addr, entry->ai_addrlen) == 0) {
      return candidate;
    }
  }
  return Socket(-1);
}

}  // namespace

void ServeBytes(int port, int clients, const void* data, size_t bytes) {
  const Socket listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.valid()) {
    Throw("socket");
  }
  const int on = 1;
  const int off = 0;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off,
             sizeof(off));  // IPv4, too
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    Throw("listening on MASTER_PORT " + std::to_string(port));
  }
  for (int served = 0; served < clients;) {
    const Socket client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.valid()) {
      SendAll(client, data, bytes);
      ++served;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      Throw("accept");
    }
  }
}

void FetchBytes(const std::string& address, int port, void* data, size_t bytes) {
  const auto deadline = std::chrono::steady_clock::now() + kConnectPatience;
  while (true) {
    const Socket connection = TryConnect(address, port);
    if (connection.valid()) {
      ReceiveAll(connection, data, bytes);
      return;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      Throw("connecting to rank 0 at " + address + ":" + std::to_string(port));
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

}  // namespace gpt
