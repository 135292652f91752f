// What a thread's readings of the clock show, and what they cost.

#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/guest_channel.h"

namespace vrank::host {
namespace {

constexpr int64_t kCost = 25;  // of TestSettings
constexpr int kFree = GuestChannel::kFreeReadings;

// On a thread that drives the clock, at a time when it has read nothing.
template <typename Body>
void OnADriver(Body body) {
  LinkedChannel linked;
  std::thread([&] {
    ASSERT_TRUE(linked.channel().ClaimRank());
    protocol::Kernel record{};
    record.record.kind = protocol::RecordKind::kKernel;
    linked.channel().Emit(record);
    linked.channel().Spend(Duration::Microseconds(10));
    body(linked.channel());
  }).join();
}

int64_t Read(GuestChannel& channel) {
  return channel.Read(/*is_free=*/false).nanoseconds();
}

int64_t Clock(GuestChannel& channel) {
  return channel.Peek().nanoseconds();
}

TEST(ClockReadingsTest, FewInARowCostNothingAndEachShowsALaterTime) {
  OnADriver([](GuestChannel& channel) {
    const int64_t before = Clock(channel);
    int64_t last = 0;
    for (int i = 0; i < kFree; ++i) {
      const int64_t shown = Read(channel);
      EXPECT_GT(shown, last);
      last = shown;
    }
    EXPECT_EQ(Clock(channel), before);
  });
}

TEST(ClockReadingsTest, ALoopThatWaitsForATimeMovesTheClock) {
  OnADriver([](GuestChannel& channel) {
    const int64_t before = Clock(channel);
    const int64_t until = Read(channel) + 100'000;
    int readings = 1;
    while (Read(channel) < until)
      ++readings;
    EXPECT_NEAR(static_cast<double>(readings), 100'000.0 / kCost, 2.0);
    EXPECT_GE(Clock(channel), before + 100'000 - (kFree + 2) * kCost);
  });
}

TEST(ClockReadingsTest, CountAnewBehindWhateverCounts) {
  OnADriver([](GuestChannel& channel) {
    for (int calls = 0; calls < 10; ++calls) {
      const int64_t before = Clock(channel);
      for (int i = 0; i < kFree; ++i)
        Read(channel);
      channel.Spend(Duration::Microseconds(10));
      EXPECT_EQ(Clock(channel), before + 10'000);
    }
  });
}

// How many there are before the thread waits for another process is that one's matter.
TEST(ClockReadingsTest, AreForgottenWhereTheThreadWaitsForOthers) {
  OnADriver([](GuestChannel& channel) {
    const int64_t before = Clock(channel);
    for (int i = 0; i < 10 * kFree; ++i) {
      Read(channel);
      channel.ForgetReadings();
    }
    EXPECT_EQ(Clock(channel), before);
  });
}

TEST(ClockReadingsTest, ALimitComputedFromOneIsAsFarAwayAsTheProgramAskedFor) {
  OnADriver([](GuestChannel& channel) {
    const int64_t before = Clock(channel);
    for (int i = 0; i < kFree / 2; ++i)
      Read(channel);
    const int64_t limit = Read(channel) + 5'000'000;
    const TimePoint at = channel.ClockAt(TimePoint::FromNanoseconds(limit));
    EXPECT_EQ(at.nanoseconds(), before + 5'000'000);
    channel.AdvanceTo(at);
    channel.Show(TimePoint::FromNanoseconds(limit));
    EXPECT_EQ(Clock(channel), before + 5'000'000);
    EXPECT_GE(Read(channel), limit);  // the program sees that the wait is over
  });
}

}  // namespace
}  // namespace vrank::host
