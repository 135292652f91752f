// Accepts the connections to a listening socket, and keeps it usable whatever connects.
//
// - A process of another user is turned away before a byte of it is read.
// - A connection that has not introduced itself occupies a descriptor. Above a limit,
//   the oldest ones are closed once their patience has expired; until then new
//   connections wait in the listener's backlog.
// - When no descriptor is left, a reserved one serves to look at who connects. So a
//   flood of foreign connections neither fills the process nor makes its epoll set
//   ready for ever.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_CONNECT_ACCEPTOR_H_
#define VRANK_EMULATOR_CONNECT_ACCEPTOR_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>

#include <absl/status/status.h>

#include "emulator/connect/peer.h"
#include "emulator/connect/strangers.h"

namespace vrank::emulator {

class Acceptor {
 public:
  using PeerOf = std::function<Peer(int fd)>;
  struct Limits {
    // Of connections that have not introduced themselves; 0: a quarter of this
    // process's limit of open files.
    size_t most_silent = 0;
    // For which a connection may be silent when there are so many.
    std::chrono::milliseconds patience{2000};
  };

  class Owner {
   public:
    virtual ~Owner() = default;
    // Of this user, or root. Takes over the descriptor.
    virtual void Accepted(int fd) = 0;
    // Of another user; the descriptor is closed behind the call.
    virtual void Refused(int fd) = 0;
    // Has been silent for too long. Reads what may have come since, and closes the
    // connection unless that introduces it.
    virtual void Expired(int fd) = 0;
  };

  // Watches `listener`, which does not block, in the set `epoll`; both stay the
  // owner's, and outlive this.
  Acceptor(int listener, int epoll, PeerOf peer_of, Owner* owner, Strangers* strangers,
           Limits limits);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Whether all descriptors could be opened; else nothing is accepted.
  absl::Status Check() const;
  // Whether an event of the epoll set is for AcceptAll.
  bool Watches(int fd) const { return fd == listener_ || fd == timer_; }
  // Accepts what waits, a bounded number at once. An error: the descriptors are used
  // up by connections that have introduced themselves.
  absl::Status AcceptAll();

  void Introduced(int fd) { Forget(fd); }
  // Closed, or introduced.
  void Forget(int fd);

  size_t silent() const { return silent_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Silent {
    int fd;
    Clock::time_point since;
  };

  // False: turned away.
  bool IsOurs(int fd);
  void Admit(int fd);
  // Accepts one connection in place of the reserve. False: none waits.
  absl::Status AcceptByReserve(bool* more);
  // Closes the oldest silent connection if it has been silent for long. False: there is
  // none.
  bool ExpireOldest();
  // Ends by itself when the oldest silent connection may be closed.
  void Pause();
  void Resume();

  const int listener_;
  const int epoll_;
  const PeerOf peer_of_;
  Owner* const owner_;
  Strangers* const strangers_;
  const Limits limits_;
  int reserve_ = -1;
  int timer_ = -1;
  bool watched_ = false;
  bool paused_ = false;
  std::list<Silent> silent_;                           // the oldest first
  std::map<int, std::list<Silent>::iterator> places_;  // by descriptor
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_CONNECT_ACCEPTOR_H_
