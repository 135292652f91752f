#include "emulator/watch/loopback_traffic.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "emulator/connect/sock_diag.h"

namespace vrank::emulator {
namespace {

// Of ADDRESS:PORT.
std::string_view AddressOf(std::string_view end) {
  return end.substr(0, end.rfind(':'));
}

}  // namespace

bool InFlight(std::istream& connections) {
  std::string line;
  std::getline(connections, line);  // the headings
  while (std::getline(connections, line)) {
    std::istringstream fields(line);
    std::string number, here, there, state, queues;
    // A socket that listens keeps other numbers there.
    constexpr std::string_view kListens = "0A", kNothingToSend = "00000000:";
    if (fields >> number >> here >> there >> state >> queues && state != kListens &&
        AddressOf(here) == AddressOf(there) && !queues.starts_with(kNothingToSend))
      return true;
  }
  return false;
}

namespace {

// Of sock_diag(7): the states in which a connection may have bytes under way. Not
// listening, nor ended: a server may have thousands of those.
constexpr uint32_t kStates = 1u << TCP_ESTABLISHED | 1u << TCP_SYN_SENT |
                             1u << TCP_SYN_RECV | 1u << TCP_FIN_WAIT1 |
                             1u << TCP_FIN_WAIT2 | 1u << TCP_CLOSE_WAIT |
                             1u << TCP_LAST_ACK | 1u << TCP_CLOSING;

bool IsInFlight(const inet_diag_msg& connection) {
  const auto& here = connection.id.idiag_src;
  const auto& there = connection.id.idiag_dst;
  return connection.idiag_wqueue != 0 &&
         std::equal(std::begin(here), std::end(here), std::begin(there));
}

// What the messages of one datagram say of a dump.
enum class Said { kMore, kNone, kInFlight, kUnknown };

Said Read(const char* bytes, size_t size) {
  for (size_t at = 0; at + sizeof(nlmsghdr) <= size;) {
    nlmsghdr header;
    memcpy(&header, bytes + at, sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > size - at ||
        header.nlmsg_type == NLMSG_ERROR)
      return Said::kUnknown;
    if (header.nlmsg_type == NLMSG_DONE)
      return Said::kNone;
    if (inet_diag_msg connection;
        header.nlmsg_len >= NLMSG_HDRLEN + sizeof connection) {
      memcpy(&connection, bytes + at + NLMSG_HDRLEN, sizeof connection);
      if (IsInFlight(connection))
        return Said::kInFlight;
    }
    at += NLMSG_ALIGN(header.nlmsg_len);
  }
  return Said::kMore;
}

// nullopt where the kernel does not say.
std::optional<bool> AskKernel(uint8_t family) {
  const int kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (kernel < 0)
    return std::nullopt;
  const SockDiagRequest request = AboutTcp(family, NLM_F_DUMP, kStates);
  Said said = Said::kUnknown;
  if (send(kernel, &request, sizeof request, 0) == sizeof request) {
    said = Said::kMore;
    std::array<char, 32 << 10> answer;
    while (said == Said::kMore) {
      const ssize_t got = recv(kernel, answer.data(), answer.size(), 0);
      said = got > 0 ? Read(answer.data(), static_cast<size_t>(got)) : Said::kUnknown;
    }
  }
  close(kernel);
  if (said == Said::kUnknown)
    return std::nullopt;
  return said == Said::kInFlight;
}

}  // namespace

bool LoopbackInFlight() {
  const std::optional<bool> by_four = AskKernel(AF_INET);
  if (by_four == true)
    return true;
  // Where there is no IPv6, there is no such table.
  if (const std::optional<bool> by_six = AskKernel(AF_INET6);
      by_four.has_value() &&
      (by_six.has_value() || access("/proc/net/tcp6", F_OK) != 0))
    return by_six.value_or(false);
  std::ifstream connections("/proc/net/tcp");
  if (!connections || InFlight(connections))
    return true;
  // Where there is no IPv6, there is no such table.
  std::ifstream connections_6("/proc/net/tcp6");
  return connections_6 && InFlight(connections_6);
}

}  // namespace vrank::emulator
