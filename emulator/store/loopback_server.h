// A TCP server on the loopback interface that never blocks: descriptors, and the bytes
// that wait to go out. What bytes mean is its owner's business.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_STORE_LOOPBACK_SERVER_H_
#define VRANK_EMULATOR_STORE_LOOPBACK_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace vrank::emulator {

class LoopbackServer {
 public:
  using Client = int;

  class Owner {
   public:
    virtual ~Owner() = default;
    // `in`: what the client has sent and nobody has taken off its front yet. May call
    // Send.
    virtual absl::Status Received(Client client, std::string* in) = 0;
    virtual void Gone(Client client) = 0;
  };

  // Listens at `wanted_port` of 127.0.0.1 where it is free, else at any other. `what`
  // begins messages about errors. `owner` outlives the server.
  static absl::StatusOr<std::unique_ptr<LoopbackServer>> Create(uint16_t wanted_port,
                                                                const char* what,
                                                                Owner* owner);
  ~LoopbackServer();
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  uint16_t port() const { return port_; }
  // Readable when HandleEvents has something to do.
  int poll_fd() const { return epoll_; }
  // Accepts, reads, sends and notices ends. True where bytes came. Errors are the
  // owner's, and too many clients for this process's limit of open files.
  absl::StatusOr<bool> HandleEvents();

  // The port of the client's own socket; 0 where it has gone.
  uint16_t PortOf(Client client) const;

  // Goes out now, or when there is room. Nothing where the client has gone.
  void Send(Client client, std::string_view bytes);
  // The client reads the end behind what has gone out, and what waits for room is lost;
  // what it still sends is received.
  void EndSending(Client client);

 private:
  struct Connection {
    std::string in, out;
  };
  LoopbackServer(int listener, int epoll, Owner* owner);
  absl::Status AcceptAll();
  // False where the connection is to be closed.
  absl::StatusOr<bool> Read(Client client, Connection* connection);
  void Flush(Client client, Connection* connection);

  const int listener_;
  const int epoll_;
  Owner* const owner_;
  uint16_t port_ = 0;
  std::map<Client, Connection> connections_;  // by descriptor
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_STORE_LOOPBACK_SERVER_H_
