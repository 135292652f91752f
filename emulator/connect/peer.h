// The user of the process at the other end of a local connection.
//
// A unix socket carries the peer's credentials. A TCP connection over the loopback
// interface does not: the peer's socket is looked up among those of this machine, by
// netlink (sock_diag(7)) or, where that is missing, in /proc/net/tcp and tcp6.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_CONNECT_PEER_H_
#define VRANK_EMULATOR_CONNECT_PEER_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vrank::emulator {

struct Peer {
  // kGone: the process has closed its socket already; the kernel then reports user 0.
  // kUnknown: this machine does not report it.
  enum class Kind { kUser, kGone, kUnknown };
  Kind kind = Kind::kUnknown;
  uid_t uid = 0;  // kUser

  friend bool operator==(const Peer&, const Peer&) = default;
};

// The peer of a connected unix socket.
Peer UnixPeer(int fd);

// The ends of a TCP connection over IPv4, in network byte order, as its client sees it.
struct TcpEnds {
  uint32_t local_address = 0, remote_address = 0;
  uint16_t local_port = 0, remote_port = 0;
};

// The owner of the socket with these ends in the text of /proc/net/tcp or tcp6; nullopt
// where it is not among them.
std::optional<Peer> FindInSocketTable(std::string_view table, const TcpEnds& ends);

// Its descriptors stay open, so that it works when no more can be opened.
class TcpPeers {
 public:
  TcpPeers();
  ~TcpPeers();
  TcpPeers(const TcpPeers&) = delete;
  TcpPeers& operator=(const TcpPeers&) = delete;

  // The peer of a socket that was accepted on the loopback interface.
  Peer Of(int fd) const;

 private:
  // nullopt: this source does not work here.
  std::optional<Peer> AskKernel(const TcpEnds& ends) const;
  std::optional<Peer> ReadTables(const TcpEnds& ends) const;

  int netlink_ = -1;
  std::array<int, 2> tables_{-1, -1};
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_CONNECT_PEER_H_
