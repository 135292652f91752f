// Where the processes of the real ranks report: an abstract unix socket.
//
// A process of a known rank, run by the same user, is handed its rank's segment and the
// doorbell; everybody else is told why not. The open connection is a leash in both
// directions: its end tells the emulator that the process is gone, and the kernel kills
// the process when the emulator's end closes (see virtual_host/connection.h).
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

#include <absl/status/statusor.h>

#include "emulator/connect/guest_link.h"

namespace vrank::emulator {

struct GuestEvent {
  enum class Kind { kConnected, kDisconnected, kRefused };
  Kind kind;
  uint32_t rank;  // as the process states it; may be unknown for kRefused
  uint32_t pid;
  std::string text;  // kRefused: the reason the process was given
};

class GuestServer {
 public:
  static absl::StatusOr<std::unique_ptr<GuestServer>> Create();
  ~GuestServer();
  GuestServer(const GuestServer&) = delete;
  GuestServer& operator=(const GuestServer&) = delete;

  // Serves this rank from now on. The link belongs to the caller and outlives the
  // server.
  void AddLink(GuestLink* link);

  // The value of VRANK_SOCKET for the ranks.
  const std::string& address() const { return address_; }
  // Readable when HandleEvents has something to do.
  int poll_fd() const { return epoll_; }
  // Readable when a guest rang; shared by all ranks.
  int doorbell() const { return doorbell_; }
  // Makes the doorbell silent until it is rung again.
  void ClearDoorbell();

  // Accepts, answers and notices ends; never blocks. Links are up to date when it
  // returns.
  std::vector<GuestEvent> HandleEvents();

 private:
  struct Connection {
    uint32_t pid = 0;  // 0: has not said hello
    uint32_t rank = 0;
    GuestLink* link = nullptr;
  };
  GuestServer(std::string address, int listener, int epoll, int doorbell);
  void AcceptAll();
  void ReadHello(int fd, std::vector<GuestEvent>* events);
  void Close(int fd, std::vector<GuestEvent>* events);
  // Empty where the process is welcome.
  std::string RefusalOf(const protocol::Hello& hello, size_t bytes) const;

  const std::string address_;
  const int listener_;
  const int epoll_;
  const int doorbell_;
  std::map<uint32_t, GuestLink*> links_;   // by rank
  std::map<int, Connection> connections_;  // by descriptor
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_CONNECT_GUEST_SERVER_H_
