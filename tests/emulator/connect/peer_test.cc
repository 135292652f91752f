#include "emulator/connect/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using Kind = Peer::Kind;

constexpr char kTable[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid "
    " "
    "timeout inode\n"
    "   0: 0100007F:0BB8 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000 "
    "       0 9 1 0000000000000000 20 4 30 10 -1\n"
    "   1: 0100007F:9C40 0100007F:0BB8 01 00000000:00000000 00:00000000 00000000 65534 "
    "       0 7 1 0000000000000000 20 4 30 10 -1\n"
    "   2: 0100007F:9C41 0100007F:0BB8 06 00000000:00000000 00:00000000 00000000     0 "
    "       0 0 1 0000000000000000\n";
constexpr char kTable6[] =
    "  sl  local_address                         remote_address ...\n"
    "   0: 0000000000000000FFFF00000100007F:9C42 "
    "0000000000000000FFFF00000100007F:0BB8 01 00000000:00000000 00:00000000 00000000   "
    " "
    "12        0 8 1 0000000000000000 20 4 30 10 -1\n";

TcpEnds FromPort(uint16_t port) {
  return {htonl(INADDR_LOOPBACK), htonl(INADDR_LOOPBACK), htons(port), htons(3000)};
}

TEST(PeerTest, FindsTheClientsSocketAndNotTheServers) {
  EXPECT_EQ(FindInSocketTable(kTable, FromPort(40000)), (Peer{Kind::kUser, 65534}));
  EXPECT_EQ(FindInSocketTable(kTable, FromPort(40001)), (Peer{Kind::kGone, 0}));
  EXPECT_EQ(FindInSocketTable(kTable, FromPort(40003)), std::nullopt);
  EXPECT_EQ(FindInSocketTable(kTable6, FromPort(40002)), (Peer{Kind::kUser, 12}));
}

TEST(PeerTest, ReadsAnyTable) {
  const std::string table = kTable;
  for (size_t length = 0; length < table.size(); ++length)
    FindInSocketTable(table.substr(0, length), FromPort(40000));
  EXPECT_EQ(FindInSocketTable("\n\n 1: : : : : : : : : : :\n", FromPort(40000)),
            std::nullopt);
}

// A server on the loopback interface, and clients of any user.
class TcpPeerTest : public testing::Test {
 protected:
  TcpPeerTest() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener_, reinterpret_cast<sockaddr*>(&address_), sizeof address_);
    listen(listener_, 8);
    socklen_t length = sizeof address_;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address_), &length);
  }
  ~TcpPeerTest() override { close(listener_); }

  int Connect(int family = AF_INET) {
    const int fd = socket(family, SOCK_STREAM, 0);
    sockaddr_in6 mapped{};
    mapped.sin6_family = AF_INET6;
    mapped.sin6_port = address_.sin_port;
    mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
    mapped.sin6_addr.s6_addr[12] = 127;
    mapped.sin6_addr.s6_addr[15] = 1;
    const int result =
        family == AF_INET
            ? connect(fd, reinterpret_cast<sockaddr*>(&address_), sizeof address_)
            : connect(fd, reinterpret_cast<sockaddr*>(&mapped), sizeof mapped);
    EXPECT_EQ(result, 0);
    return fd;
  }
  Peer Accepted() {
    const int fd = accept(listener_, nullptr, nullptr);
    const Peer peer = peers_.Of(fd);
    close(fd);
    return peer;
  }

  TcpPeers peers_;
  int listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address_{};
};

TEST_F(TcpPeerTest, AClientOfThisUser) {
  for (int i = 0; i < 3; ++i) {
    const int client = Connect();
    EXPECT_EQ(Accepted(), (Peer{Kind::kUser, geteuid()}));
    close(client);
  }
}

TEST_F(TcpPeerTest, AClientWithAnIpv6Socket) {
  const int probe = socket(AF_INET6, SOCK_STREAM, 0);
  if (probe < 0)
    GTEST_SKIP() << "this machine has no IPv6";
  close(probe);
  const int client = Connect(AF_INET6);
  EXPECT_EQ(Accepted(), (Peer{Kind::kUser, geteuid()}));
  close(client);
}

TEST_F(TcpPeerTest, AClientThatHasGoneIsNotRoot) {
  close(Connect());
  EXPECT_EQ(Accepted(), (Peer{Kind::kGone, 0}));
}

TEST_F(TcpPeerTest, AClientOfAnotherUser) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kOther = 65534;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(kOther) != 0)
      _exit(1);
    Connect();
    (void)!write(ready[1], "c", 1);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(Accepted(), (Peer{Kind::kUser, kOther}));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace vrank::emulator
