#include "emulator/watch/socket_owner.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

TEST(SocketOwnerTest, ReadsTheInodeOfAConnectedPort) {
  constexpr char kTable[] =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   "
      "uid  timeout inode\n"
      "   0: 0100007F:C000 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 "
      "       0 11 1 0 100 0 0 10 0\n"
      "   1: 0100007F:C000 0100007F:07E8 01 00000000:00000000 00:00000000 00000000  0 "
      "       0 22 1 0 20 4 30 10 -1\n"
      "   2: too short\n";
  std::istringstream table(kTable), again(kTable);
  EXPECT_EQ(SocketAtPort(table, 0xC000), "socket:[22]")
      << "the one that listens has 11";
  EXPECT_EQ(SocketAtPort(again, 0x07E8), std::nullopt);
}

TEST(SocketOwnerTest, FindsTheProcessOfAConnection) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0),
            client = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener, plain, length), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, plain, &length), 0);
  ASSERT_EQ(connect(client, plain, length), 0);
  ASSERT_EQ(getsockname(client, plain, &length), 0);
  const auto found = SocketAtPort(ntohs(address.sin_port));
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(HoldsSocket(getpid(), *found));
  EXPECT_FALSE(HoldsSocket(getpid(), "socket:[0]"));
  EXPECT_FALSE(HoldsSocket(-1, *found));
  close(client);
  close(listener);
}

}  // namespace
}  // namespace vrank::emulator
