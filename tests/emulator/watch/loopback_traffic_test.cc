#include "emulator/watch/loopback_traffic.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

constexpr char kHeadings[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n";

bool InFlightIn(const std::string& lines) {
  std::istringstream table(kHeadings + lines);
  return InFlight(table);
}

TEST(LoopbackTrafficTest, SaysWhatIsUnderWayWithinTheMachine) {
  EXPECT_FALSE(InFlightIn(""));
  EXPECT_FALSE(
      InFlightIn(" 0: 0100007F:07E8 0100007F:C000 01 00000000:00000010 00:00000000\n"));
  EXPECT_TRUE(
      InFlightIn(" 0: 0100007F:07E8 0100007F:C000 01 00000000:00000000 00:00000000\n"
                 " 1: 0100007F:C000 0100007F:07E8 01 00000004:00000000 01:00000014\n"));
}

TEST(LoopbackTrafficTest, LeavesOtherMachinesAndListenersAside) {
  EXPECT_FALSE(
      InFlightIn(" 0: 0B00A8C0:0016 0C00A8C0:C000 01 00000040:00000000 01:00000014\n"
                 " 1: 00000000:07E8 00000000:0000 0A 00000001:00000002 00:00000000\n"));
}

// A connection of this machine whose one end does not read.
class UnreadConnection {
 public:
  UnreadConnection() {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof here;
    auto* const address = reinterpret_cast<sockaddr*>(&here);
    EXPECT_EQ(bind(listener_, address, bytes), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, address, &bytes), 0);
    EXPECT_EQ(connect(sender_, address, bytes), 0);
    receiver_ = accept(listener_, nullptr, nullptr);
  }
  ~UnreadConnection() {
    for (const int socket : {listener_, sender_, receiver_})
      close(socket);
  }
  // More than its other end has room for.
  void Fill() {
    const std::vector<char> bytes(1 << 16);
    while (send(sender_, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  }

 private:
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int sender_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int receiver_ = -1;
};

// Other programs of the machine may send as well, but not all the time.
bool NothingInFlight() {
  for (int look = 0; look < 1000; ++look)
    if (!LoopbackInFlight())
      return true;
  return false;
}

TEST(LoopbackTrafficTest, SeesWhatTheKernelHolds) {
  EXPECT_TRUE(NothingInFlight());
  {
    UnreadConnection connection;
    EXPECT_TRUE(NothingInFlight()) << "a connection without bytes";
    connection.Fill();
    for (int look = 0; look < 1000; ++look)
      ASSERT_TRUE(LoopbackInFlight());
  }
  EXPECT_TRUE(NothingInFlight());
}

}  // namespace
}  // namespace vrank::emulator
