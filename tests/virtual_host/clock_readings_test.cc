// What a driving thread's readings of the clock cost.

#include <thread>

#include <gtest/gtest.h>

#include "schedule/policy.h"
#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/channel/guest_channel.h"

namespace vrank::host {
namespace {

constexpr int64_t kCost = 25;  // of TestSettings

class ClockReadingsTest : public ::testing::Test {
 protected:
  // On a thread that drives the clock.
  template <typename Body>
  void OnADriver(Body body) {
    LinkedChannel linked;
    std::thread([&] {
      ASSERT_TRUE(linked.channel().ClaimRank());
      body(linked.channel());
    }).join();
  }
  using Reader = GuestChannel::Reader;
  static int64_t Read(GuestChannel& channel, Reader reader = Reader::kProgram) {
    return channel.Read(reader).nanoseconds();
  }
};

TEST_F(ClockReadingsTest, EachShowsWhatTheOneBeforeCost) {
  OnADriver([](GuestChannel& channel) {
    const int64_t first = Read(channel);
    EXPECT_EQ(Read(channel), first + kCost);
    EXPECT_EQ(Read(channel), first + 2 * kCost);
  });
}

TEST_F(ClockReadingsTest, OneThatGivesAWaitItsLimitIsFree) {
  OnADriver([](GuestChannel& channel) {
    const int64_t first = Read(channel);
    for (int i = 0; i < 100; ++i) {
      channel.DropReading();
      EXPECT_EQ(Read(channel), first);
    }
  });
}

TEST_F(ClockReadingsTest, ALoopThatLooksInVainUntilATimeGetsThere) {
  OnADriver([](GuestChannel& channel) {
    const int64_t until = Read(channel) + 100 * kCost;
    int looks = 0;
    while (Read(channel) < until) {
      channel.DropReadingInVain();
      ASSERT_LT(++looks, 1000);
    }
    EXPECT_GE(looks, 100);
    // Once it has waited some are free again.
    channel.DropReading();
    const int64_t before = Read(channel);
    channel.DropReadingInVain();
    EXPECT_EQ(Read(channel), before);
  });
}

TEST_F(ClockReadingsTest, ThoseOfCodeThatWaitsAreFreeWhileItWaits) {
  OnADriver([](GuestChannel& channel) {
    const int64_t first = Read(channel, Reader::kWait);
    for (int waits = 0; waits < 10; ++waits) {
      channel.LookAnew();
      for (uint32_t i = 0; i < schedule::kFreeReadings; ++i)
        EXPECT_EQ(Read(channel, Reader::kWait), first);
    }
  });
}

TEST_F(ClockReadingsTest, CodeThatOnlyLooksWhetherATimeHasComeGetsThere) {
  OnADriver([](GuestChannel& channel) {
    const int64_t until = Read(channel, Reader::kWait) + 100 * kCost;
    int looks = 0;
    while (Read(channel, Reader::kWait) < until)
      ASSERT_LT(++looks, 1000);
    EXPECT_LE(looks, 100 + static_cast<int>(schedule::kFreeReadings));
    EXPECT_GE(channel.ProcessNow().nanoseconds(),
              until - kCost);  // and so has the clock
  });
}

// What is left of a limit, as Python's selectors take it: in whole milliseconds.
int64_t RoundedUp(int64_t ns) {
  return (ns + 999'999) / 1'000'000;
}

TEST_F(ClockReadingsTest, CodeThatPollsWaitsNoMillisecondMoreThanIsLeft) {
  OnADriver([](GuestChannel& channel) {
    for (int waits = 0; waits < 5; ++waits) {
      const int64_t begin = channel.Now().nanoseconds();
      const int64_t until = Read(channel, Reader::kPoll) + 9'000'000;
      const int64_t length = RoundedUp(until - Read(channel, Reader::kPoll));
      EXPECT_EQ(length, 9);
      channel.AdvanceTo(channel.Now() + Duration::Milliseconds(length));
      EXPECT_GT(Read(channel, Reader::kPoll), until);
      EXPECT_EQ(channel.Now().nanoseconds(), begin + 9'000'000);
    }
    // Others see the clock as it is.
    EXPECT_EQ(Read(channel, Reader::kWait), channel.Now().nanoseconds());
  });
}

TEST_F(ClockReadingsTest, ThoseOfLibrariesShowTheClockAsItIs) {
  OnADriver([](GuestChannel& channel) {
    const int64_t first = Read(channel, Reader::kLibrary);
    for (int i = 0; i < 1000; ++i)
      EXPECT_EQ(Read(channel, Reader::kLibrary), first);
    EXPECT_EQ(Read(channel, Reader::kWait), first);
    EXPECT_EQ(Read(channel), first + kCost);
    EXPECT_EQ(channel.ProcessNow().nanoseconds(), first);
    // A loop that looks for nothing else gets there.
    const int64_t until = first + 100 * kCost;
    uint32_t looks = 0;
    while (Read(channel, Reader::kLibrary) < until)
      ASSERT_LT(++looks, schedule::kFreeLibraryReadings + 1000);
  });
}

// A worker's meter divides by what has passed between two readings.
TEST_F(ClockReadingsTest, InAProcessThatMovesNoClockEachShowsALaterTime) {
  OnADriver([](GuestChannel& channel) {
    channel.BecomeForkChild();
    const int64_t clock = channel.ProcessNow().nanoseconds();
    const int64_t first = Read(channel);
    EXPECT_EQ(Read(channel), first + kCost);
    EXPECT_EQ(Read(channel), first + 2 * kCost);
    channel.DropReading();  // it gave a wait its limit
    EXPECT_EQ(Read(channel), first + 2 * kCost);
    EXPECT_EQ(channel.ProcessNow().nanoseconds(), clock);
  });
}

// Which helper threads are left behind is told by real time.
TEST_F(ClockReadingsTest, WhatIsCountedMeanwhileDoesNotPayForOne) {
  OnADriver([](GuestChannel& channel) {
    const int64_t first = Read(channel);
    channel.Count(LossId::kHelpersLeftBehind, 1);
    channel.DropReading();
    EXPECT_EQ(Read(channel), first);
  });
}

}  // namespace
}  // namespace vrank::host
