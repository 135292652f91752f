// Who moves a rank's clock before one of its processes issues work.

#include <thread>

#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/channel/guest_channel.h"

namespace vrank::host {
namespace {

template <typename Body>
void OnFreshThread(Body body) {
  std::thread(body).join();
}

protocol::Kernel Kernel() {
  protocol::Kernel record{};
  record.record.kind = protocol::RecordKind::kKernel;
  record.lane = 1;
  return record;
}

int64_t Clock(const GuestChannel& channel) {
  return channel.Peek().nanoseconds();
}

TEST(ClockBeforeOwnerTest, CountsTimeBeforeTheClaimInTheFirstRecord) {
  LinkedChannel linked;
  linked.channel().AdvanceTo(TimePoint::FromNanoseconds(300));
  OnFreshThread([&] {
    ASSERT_TRUE(linked.channel().ClaimRank());
    linked.channel().Emit(Kernel());
  });
  EXPECT_EQ(linked.link().Next()->host_ns, 300);
}

// A shell or a debugger may read clocks as often as it likes before the program starts.
TEST(ClockBeforeOwnerTest, SharesSleepsBeforeTheClaimAndNotReadings) {
  LinkedChannel linked;
  Connection second;
  ASSERT_TRUE(MapSegment(linked.link().memfd(), &second));
  auto* wrapper = new GuestChannel(second);
  wrapper->Spend(Duration::Nanoseconds(50));
  EXPECT_EQ(Clock(*wrapper), 50);
  wrapper->AdvanceTo(TimePoint::FromNanoseconds(350));
  EXPECT_EQ(Clock(*wrapper), 350);
  EXPECT_EQ(Clock(linked.channel()), 300);
  linked.channel().Spend(Duration::Nanoseconds(7));
  OnFreshThread([&] {
    ASSERT_TRUE(linked.channel().ClaimRank());
    EXPECT_EQ(Clock(linked.channel()), 307);
    linked.channel().Emit(Kernel());
  });
  EXPECT_EQ(linked.link().Next()->host_ns, 307);
}

TEST(ClockBeforeOwnerTest, WatcherMovesNoClock) {
  LinkedChannel linked;
  linked.channel().StandAside();
  linked.channel().Spend(Duration::Nanoseconds(7));
  EXPECT_FALSE(linked.channel().DrivesClock());
  EXPECT_FALSE(linked.channel().ClaimRank());
  EXPECT_EQ(Clock(linked.channel()), 0);
}

}  // namespace
}  // namespace vrank::host
