// Where the processes of the real ranks report: an abstract unix socket.
//
// A process of a known rank is handed its rank's segment and the doorbell. Processes of
// other users, and those without the session's token, get the reason, and their
// connection is closed: they are counted, and the job continues (acceptor.h). A process
// that has the token belongs to the job; where it is refused, that is an event.
//
// The open connection is a leash in both directions: its end tells the emulator that
// the process is gone, and the kernel kills the process when the emulator's end closes
// (see virtual_host/channel/connection.h).
//
// Abstract sockets have no file, so nothing is left behind whatever happens.
//
// Thread rule: one thread, the emulator's.

#ifndef VRANK_EMULATOR_CONNECT_GUEST_SERVER_H_
#define VRANK_EMULATOR_CONNECT_GUEST_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/session_token.h"
#include "emulator/connect/acceptor.h"
#include "emulator/connect/guest_link.h"
#include "emulator/connect/peer.h"
#include "emulator/connect/strangers.h"

namespace vrank::emulator {

struct GuestEvent {
  enum class Kind { kConnected, kDisconnected, kRefused };
  Kind kind;
  uint32_t rank;  // as the process states it; may be unknown for kRefused
  uint32_t pid;
  std::string text;  // kRefused: the reason the process was given
};

class GuestServer : private Acceptor::Owner {
 public:
  // The arguments are for tests: see acceptor.h.
  static absl::StatusOr<std::unique_ptr<GuestServer>> Create(
      Acceptor::PeerOf peer_of = UnixPeer, Acceptor::Limits limits = {});
  ~GuestServer() override;
  GuestServer(const GuestServer&) = delete;
  GuestServer& operator=(const GuestServer&) = delete;

  // Serves this rank from now on. The link belongs to the caller and outlives the
  // server.
  void AddLink(GuestLink* link);

  // The value of VRANK_SOCKET for the ranks.
  const std::string& address() const { return address_; }
  // ... and of VRANK_TOKEN.
  std::string token() const;
  // Readable when HandleEvents has something to do.
  int poll_fd() const { return epoll_; }
  // Readable when a guest rang; shared by all ranks.
  int doorbell() const { return doorbell_; }
  // Makes the doorbell silent until it is rung again.
  void ClearDoorbell();

  // Accepts, answers and notices ends; never blocks. Links are up to date when it
  // returns.
  std::vector<GuestEvent> HandleEvents();
  // Why no process can connect any more; OK as long as they can.
  const absl::Status& status() const { return status_; }

  Strangers& strangers() { return strangers_; }

 private:
  struct Connection {
    uint32_t pid = 0;  // 0: has not said hello
    uint32_t rank = 0;
    GuestLink* link = nullptr;
  };
  GuestServer(std::string address, const protocol::SessionToken& token, int listener,
              int epoll, int doorbell, Acceptor::PeerOf peer_of,
              Acceptor::Limits limits);
  void Accepted(int fd) override;
  void Refused(int fd) override;
  void Expired(int fd) override;
  void ReadHello(int fd);
  void Close(int fd);
  // Of a process that has no part in the session; empty where it has.
  std::string StrangenessOf(const protocol::Introduction& message, size_t bytes) const;
  // Of one that has; empty where it is welcome.
  std::string RefusalOf(const protocol::Hello& hello) const;

  const std::string address_;
  const protocol::SessionToken token_;
  const int listener_;
  const int epoll_;
  const int doorbell_;
  std::map<uint32_t, GuestLink*> links_;   // by rank
  std::map<int, Connection> connections_;  // by descriptor
  std::vector<GuestEvent> events_;         // since HandleEvents began
  Strangers strangers_;
  Acceptor acceptor_;
  absl::Status status_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_CONNECT_GUEST_SERVER_H_
