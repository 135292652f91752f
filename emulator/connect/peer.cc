#include "emulator/connect/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "emulator/connect/sock_diag.h"

namespace vrank::emulator {
namespace {

// Of a line of /proc/net/tcp (proc(5)): "sl: local remote state queues timer
// retransmits uid timeout inode ...".
constexpr size_t kLocalField = 1, kRemoteField = 2, kUserField = 7, kInodeField = 9;
constexpr size_t kTableChunk = size_t{64} << 10;

// A socket without an inode belongs to no process any more.
Peer PeerOfSocket(uid_t uid, uint64_t inode) {
  return inode == 0 ? Peer{Peer::Kind::kGone, 0} : Peer{Peer::Kind::kUser, uid};
}

std::vector<std::string_view> Fields(std::string_view line) {
  std::vector<std::string_view> fields;
  while (fields.size() <= kInodeField) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos)
      break;
    const size_t end = std::min(line.find(' ', begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
  return fields;
}

// The kernel prints an address as a number in host byte order. An IPv6 socket that
// speaks IPv4 shows it at the end of its own address.
std::string EndText(uint32_t address, uint16_t port) {
  return fmt::format("{:08X}:{:04X}", address, ntohs(port));
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

std::string ReadFromStart(int fd) {
  std::string text;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kTableChunk);
    const ssize_t got =
        pread(fd, text.data() + before, kTableChunk, static_cast<off_t>(before));
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0)
      return text;
  }
}

std::optional<TcpEnds> ClientEnds(int accepted) {
  sockaddr_in own{}, peer{};
  socklen_t own_length = sizeof own, peer_length = sizeof peer;
  if (getsockname(accepted, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
      getpeername(accepted, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0 ||
      own.sin_family != AF_INET || peer.sin_family != AF_INET)
    return std::nullopt;
  return TcpEnds{peer.sin_addr.s_addr, own.sin_addr.s_addr, peer.sin_port,
                 own.sin_port};
}

}  // namespace

Peer UnixPeer(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
    return {Peer::Kind::kGone, 0};
  return {Peer::Kind::kUser, credentials.uid};
}

std::optional<Peer> FindInSocketTable(std::string_view table, const TcpEnds& ends) {
  const std::string local = EndText(ends.local_address, ends.local_port);
  const std::string remote = EndText(ends.remote_address, ends.remote_port);
  while (!table.empty()) {
    const std::string_view line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(line.size() + 1, table.size()));
    const std::vector<std::string_view> fields = Fields(line);
    if (fields.size() <= kInodeField || !fields[kLocalField].ends_with(local) ||
        !fields[kRemoteField].ends_with(remote))
      continue;
    const auto uid = Number(fields[kUserField]), inode = Number(fields[kInodeField]);
    if (uid && inode)
      return PeerOfSocket(static_cast<uid_t>(*uid), *inode);
  }
  return std::nullopt;
}

TcpPeers::TcpPeers()
    : netlink_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)),
      tables_{open("/proc/net/tcp", O_RDONLY | O_CLOEXEC),
              open("/proc/net/tcp6", O_RDONLY | O_CLOEXEC)} {}

TcpPeers::~TcpPeers() {
  for (const int fd : {netlink_, tables_[0], tables_[1]})
    if (fd >= 0)
      close(fd);
}

Peer TcpPeers::Of(int fd) const {
  const std::optional<TcpEnds> ends = ClientEnds(fd);
  if (!ends)
    return {Peer::Kind::kGone, 0};
  if (const auto peer = AskKernel(*ends))
    return *peer;
  return ReadTables(*ends).value_or(Peer{});
}

std::optional<Peer> TcpPeers::AskKernel(const TcpEnds& ends) const {
  if (netlink_ < 0)
    return std::nullopt;
  SockDiagRequest request = AboutTcp(AF_INET, 0, ~uint32_t{0});
  inet_diag_sockid& id = request.question.id;
  id.idiag_src[0] = ends.local_address;
  id.idiag_sport = ends.local_port;
  id.idiag_dst[0] = ends.remote_address;
  id.idiag_dport = ends.remote_port;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  // The kernel has replied when send returns.
  alignas(nlmsghdr) char reply[4096];
  if (send(netlink_, &request, sizeof request, 0) != sizeof request)
    return std::nullopt;
  const ssize_t got = recv(netlink_, reply, sizeof reply, MSG_DONTWAIT);
  nlmsghdr header;
  if (got < static_cast<ssize_t>(sizeof header))
    return std::nullopt;
  memcpy(&header, reply, sizeof header);
  // No such socket, or a kernel without sock_diag for TCP: both are ENOENT.
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return std::nullopt;
  inet_diag_msg found;
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof found)))
    return std::nullopt;
  memcpy(&found, reply + NLMSG_HDRLEN, sizeof found);
  // Where no connection has these ends, the kernel falls back on a listener.
  if (found.id.idiag_dport != ends.remote_port)
    return Peer{Peer::Kind::kGone, 0};
  return PeerOfSocket(found.idiag_uid, found.idiag_inode);
}

std::optional<Peer> TcpPeers::ReadTables(const TcpEnds& ends) const {
  bool readable = false;
  for (const int table : tables_) {
    const std::string text = table < 0 ? "" : ReadFromStart(table);
    readable |= !text.empty();
    if (const auto peer = FindInSocketTable(text, ends))
      return peer;
  }
  if (!readable)
    return std::nullopt;
  return Peer{Peer::Kind::kGone, 0};
}

}  // namespace vrank::emulator
