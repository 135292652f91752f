// A TCP server on the loopback interface that never blocks: descriptors, and the bytes
// that wait to go out. What bytes mean is its owner's business.
//
// Only processes of this user (and root) are served. No client can hold up the others:
// of each, a bounded number of bytes is read at once, and none while it does not take
// the replies that wait for it. A client that sends what its owner does not understand
// is disconnected; the server and the other clients continue.
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

#include "emulator/connect/acceptor.h"
#include "emulator/connect/peer.h"
#include "emulator/connect/strangers.h"

namespace vrank::emulator {

class LoopbackServer : private Acceptor::Owner {
 public:
  using Client = int;
  // Replies that a client does not read: beyond this, its requests wait.
  static constexpr size_t kMostWaiting = size_t{1} << 20;

  class Owner {
   public:
    virtual ~Owner() = default;
    // `in`: what the client has sent and has not been taken off its front yet. May call
    // Send and Introduced; leaves the rest once the client is Congested. An
    // InvalidArgument is about this client, which is disconnected; any other error ends
    // the server.
    virtual absl::Status Received(Client client, std::string* in) = 0;
    virtual void Gone(Client client) = 0;
  };

  // Listens at `wanted_port` of 127.0.0.1 where it is free, else at any other. `what`
  // begins messages. `owner` outlives the server. `peer_of` and `limits` are for
  // tests: see acceptor.h.
  static absl::StatusOr<std::unique_ptr<LoopbackServer>> Create(
      uint16_t wanted_port, const char* what, Owner* owner,
      Acceptor::PeerOf peer_of = nullptr, Acceptor::Limits limits = {});
  ~LoopbackServer() override;
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  uint16_t port() const { return port_; }
  // Readable when HandleEvents has something to do.
  int poll_fd() const { return epoll_; }
  // Accepts, reads, sends and notices ends. True where a client that has introduced
  // itself sent something, or has gone. Errors are the owner's, and too many clients
  // for this process's limit of open files.
  absl::StatusOr<bool> HandleEvents();

  // The port of the client's own socket; 0 where it has gone.
  uint16_t PortOf(Client client) const;
  // The client has shown that it speaks the owner's protocol.
  void Introduced(Client client);
  // More than kMostWaiting bytes wait until the client reads.
  bool Congested(Client client) const;

  // Goes out now, or when there is room. Nothing where the client has gone.
  void Send(Client client, std::string_view bytes);
  // The client reads the end behind what has gone out, and what waits for room is lost;
  // what it still sends is received.
  void EndSending(Client client);

  // To all clients, for tests.
  size_t bytes_waiting() const;
  Strangers& strangers() { return strangers_; }

 private:
  struct Connection {
    std::string in, out;
    bool introduced = false;
  };
  LoopbackServer(int listener, int epoll, const char* what, Owner* owner,
                 Acceptor::PeerOf peer_of, Acceptor::Limits limits);
  void Accepted(int fd) override;
  void Refused(int) override {}
  void Expired(int fd) override;
  // Reads and hands on; closes the connection at its end and where it makes no sense.
  absl::Status Serve(Client client);
  // False at the connection's end.
  bool Read(Client client, Connection* connection);
  absl::Status HandOn(Client client, Connection* connection, bool* open);
  void Close(Client client);
  void Flush(Client client, Connection* connection);

  const int listener_;
  const int epoll_;
  Owner* const owner_;
  Strangers strangers_;
  TcpPeers peers_;
  Acceptor acceptor_;
  uint16_t port_ = 0;
  absl::Status error_;  // of the owner, while connections were accepted
  std::map<Client, Connection> connections_;  // by descriptor
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_STORE_LOOPBACK_SERVER_H_
