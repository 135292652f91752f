#include "emulator/watch/socket_owner.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace vrank::emulator {

// Fields of a line (proc_net_tcp.txt of the kernel's documentation): number, local
// ADDRESS:PORT in hexadecimal digits, remote, state, queues, timer, retransmits, uid,
// timeout, inode.
std::optional<std::string> SocketAtPort(std::istream& connections, uint16_t port) {
  constexpr std::string_view kConnected = "01";
  std::string line;
  std::getline(connections, line);  // the headings
  while (std::getline(connections, line)) {
    std::istringstream fields(line);
    std::string number, here, there, state, skipped, inode;
    fields >> number >> here >> there >> state;
    for (int field = 0; field < 5; ++field)
      fields >> skipped;
    if (!(fields >> inode) || state != kConnected)
      continue;
    const size_t colon = here.rfind(':');
    uint16_t found = 0;
    if (colon != std::string::npos &&
        std::from_chars(here.data() + colon + 1, here.data() + here.size(), found, 16)
                .ec == std::errc() &&
        found == port)
      return fmt::format("socket:[{}]", inode);
  }
  return std::nullopt;
}

std::optional<std::string> SocketAtPort(uint16_t port) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream connections(table);
    if (auto socket = SocketAtPort(connections, port))
      return socket;
  }
  return std::nullopt;
}

bool HoldsSocket(pid_t pid, const std::string& socket) {
  std::error_code error, gone;
  std::filesystem::directory_iterator fd(fmt::format("/proc/{}/fd", pid), error);
  for (; !error && fd != std::filesystem::directory_iterator(); fd.increment(error))
    if (std::filesystem::read_symlink(fd->path(), gone) == socket)
      return true;
  return false;
}

}  // namespace vrank::emulator
