// Which process a TCP connection of this machine belongs to.
//
// The store sees a client's port; which rank that is, the kernel's tables say.
//
// Thread rule: any thread. Reads /proc; nothing is kept.

#ifndef VRANK_EMULATOR_WATCH_SOCKET_OWNER_H_
#define VRANK_EMULATOR_WATCH_SOCKET_OWNER_H_

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <optional>
#include <string>

namespace vrank::emulator {

// "socket:[4711]", by which /proc/PID/fd shows the socket with this local port;
// nullopt where there is none that is connected. `connections`: a table as in
// /proc/net/tcp.
std::optional<std::string> SocketAtPort(std::istream& connections, uint16_t port);
// The same for this machine's connections.
std::optional<std::string> SocketAtPort(uint16_t port);

// Whether a descriptor of the process is that socket.
bool HoldsSocket(pid_t pid, const std::string& socket);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WATCH_SOCKET_OWNER_H_
