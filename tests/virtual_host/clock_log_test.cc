// Counts become the times of the steps before them.

#include "virtual_host/channel/clock_log.h"

#include <gtest/gtest.h>

namespace vrank::host {
namespace {

constexpr int64_t kStart = 1'700'000'000'000'000'000;

TEST(ClockLogTest, ACountIsTheTimeOfTheLastStepBeforeIt) {
  ClockLog log;
  log.Start(1000, 50);
  log.Add(1100, 70);
  log.Add(1100, 75);  // at the same count
  log.Add(1300, 90);
  ClockLog::Converter at;
  EXPECT_TRUE(log.Finish(kStart, &at));
  EXPECT_EQ(at(1000), kStart + 50);
  EXPECT_EQ(at(1099), kStart + 50);
  EXPECT_EQ(at(1100), kStart + 75);
  EXPECT_EQ(at(1299), kStart + 75);
  EXPECT_EQ(at(1'000'000), kStart + 90);
  // Before the recording the clock showed no more than at its begin.
  EXPECT_EQ(at(1), kStart + 50);
}

TEST(ClockLogTest, TimesNeverGoBack) {
  ClockLog log;
  log.Start(1000, 50);
  log.Add(1200, 80);
  log.Add(1150, 70);  // a thread that was late
  log.Add(1190, 95);
  ClockLog::Converter at;
  log.Finish(kStart, &at);
  EXPECT_EQ(at(1199), kStart + 50);
  EXPECT_EQ(at(1200), kStart + 95);
}

TEST(ClockLogTest, ATimeIsLeftAsItIs) {
  ClockLog log;
  log.Start(1000, 50);
  ClockLog::Converter at;
  log.Finish(kStart, &at);
  EXPECT_EQ(at(kStart + 123), kStart + 123);
}

TEST(ClockLogTest, RecordsBetweenStartAndFinishOnly) {
  ClockLog log;
  log.Add(5, 5);
  EXPECT_FALSE(log.recording());
  log.Start(1000, 50);
  EXPECT_TRUE(log.recording());
  ClockLog::Converter first, second;
  log.Finish(kStart, &first);
  EXPECT_FALSE(log.recording());
  log.Add(2000, 60);
  log.Start(3000, 70);
  log.Add(3100, 80);
  log.Finish(kStart, &second);
  EXPECT_EQ(first(3200), kStart + 50);
  EXPECT_EQ(second(3200), kStart + 80);
  EXPECT_EQ(second(1), kStart + 70);
}

}  // namespace
}  // namespace vrank::host
