// What the emulator is told of the limits that a rank's threads wait for.

#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/turns/thread_scheduler.h"

namespace vrank::host {
namespace {

// Beside other real ranks. Some decisions are made only where nobody in the session
// sleeps, so a thread that stops must not leave its rank's sleeper untold.
TEST(LimitsTest, TheEmulatorKnowsAtAllTimesWhetherARankSleeps) {
  using WaitsFor = ThreadScheduler::WaitsFor;
  constexpr Duration kLimit = Duration::Milliseconds(5);
  protocol::Settings settings = TestSettings();
  settings.world_size = 2;
  LinkedChannel linked(settings);
  ThreadScheduler& scheduler = linked.channel().scheduler();
  const auto sleeps = [&] {
    const auto limit = linked.link().EarliestLimit();
    EXPECT_TRUE(limit.has_value());
    EXPECT_EQ(limit.has_value() ? limit->ns : 0, kLimit.nanoseconds());
    return limit.has_value() && limit->sleeps;
  };
  HostThread* const sleeper = scheduler.BeginIssuing(nullptr);
  HostThread* const other = scheduler.BeginIssuing(nullptr);
  const auto kick = [](HostThread*) {};
  scheduler.Park(sleeper, kLimit.nanoseconds(), nullptr, kick, 0, WaitsFor::kLimitOnly);
  EXPECT_FALSE(sleeps());
  scheduler.Park(other, kNever, nullptr, kick, 0);
  EXPECT_TRUE(sleeps());
  scheduler.Unpark(other, TimePoint());
  EXPECT_FALSE(sleeps());
  scheduler.End(other);
  EXPECT_TRUE(sleeps());
  scheduler.Unpark(sleeper, TimePoint());
  EXPECT_FALSE(linked.link().EarliestLimit().has_value());
  scheduler.End(sleeper);
}

// The emulator would grant it, and end nothing else before somebody had taken the
// grant.
TEST(LimitsTest, WhatNobodyWaitsForAnyMoreIsTakenBack) {
  LinkedChannel linked;
  ThreadScheduler& scheduler = linked.channel().scheduler();
  ThreadScheduler::DriverWait wait{5000, nullptr, false};
  scheduler.AddDriverWait(&wait);
  scheduler.Publish();  // after a slice
  ASSERT_TRUE(linked.link().EarliestLimit().has_value());
  scheduler.RemoveDriverWait(&wait);
  EXPECT_FALSE(linked.link().EarliestLimit().has_value());
}

// Else the other process's sleep might end first, though it ends later.
TEST(LimitsTest, TheEmulatorKnowsOfAWaitBesideAProcessThatSleeps) {
  LinkedChannel linked;
  ThreadScheduler& scheduler = linked.channel().scheduler();
  ThreadScheduler::DriverWait wait{5000, nullptr, false};
  scheduler.AddDriverWait(&wait);
  EXPECT_FALSE(linked.link().EarliestLimit().has_value());
  scheduler.RemoveDriverWait(&wait);
  linked.channel().segment()->header.others_time_uses.store(1);
  scheduler.AddDriverWait(&wait);
  const auto limit = linked.link().EarliestLimit();
  ASSERT_TRUE(limit.has_value());
  EXPECT_EQ(limit->ns, 5000);
  scheduler.RemoveDriverWait(&wait);
  EXPECT_FALSE(linked.link().EarliestLimit().has_value());
}

}  // namespace
}  // namespace vrank::host
