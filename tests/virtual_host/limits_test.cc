// What the emulator is told of the limits that a rank's threads wait for.

#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/turns/helper_threads.h"

namespace vrank::host {
namespace {

// Beside other real ranks. Some decisions are made only where nobody in the session
// sleeps, so a thread that stops must not leave its rank's sleeper untold.
TEST(LimitsTest, TheEmulatorKnowsAtAllTimesWhetherARankSleeps) {
  using WaitsFor = HelperThreads::WaitsFor;
  constexpr Duration kLimit = Duration::Milliseconds(5);
  protocol::Settings settings = TestSettings();
  settings.world_size = 2;
  LinkedChannel linked(settings);
  HelperThreads& helpers = linked.channel().helpers();
  const auto sleeps = [&] {
    const auto limit = linked.link().EarliestLimit();
    EXPECT_TRUE(limit.has_value());
    EXPECT_EQ(limit.has_value() ? limit->ns : 0, kLimit.nanoseconds());
    return limit.has_value() && limit->sleeps;
  };
  Helper* const sleeper = helpers.BeginIssuing(nullptr);
  Helper* const other = helpers.BeginIssuing(nullptr);
  const auto kick = [](Helper*) {};
  helpers.Park(sleeper, kLimit.nanoseconds(), nullptr, kick, 0, WaitsFor::kLimitOnly);
  EXPECT_FALSE(sleeps());
  helpers.Park(other, kNever, nullptr, kick, 0);
  EXPECT_TRUE(sleeps());
  helpers.Unpark(other, TimePoint());
  EXPECT_FALSE(sleeps());
  helpers.End(other);
  EXPECT_TRUE(sleeps());
  helpers.Unpark(sleeper, TimePoint());
  EXPECT_FALSE(linked.link().EarliestLimit().has_value());
  helpers.End(sleeper);
}

// The emulator would grant it, and end nothing else before somebody had taken the
// grant.
TEST(LimitsTest, WhatNobodyWaitsForAnyMoreIsTakenBack) {
  LinkedChannel linked;
  HelperThreads& helpers = linked.channel().helpers();
  HelperThreads::DriverWait wait{5000, nullptr, false};
  helpers.AddDriverWait(&wait);
  helpers.Publish();  // after a slice
  ASSERT_TRUE(linked.link().EarliestLimit().has_value());
  helpers.RemoveDriverWait(&wait);
  EXPECT_FALSE(linked.link().EarliestLimit().has_value());
}

// Else the other process's sleep might end first, though it ends later.
TEST(LimitsTest, TheEmulatorKnowsOfAWaitBesideAProcessThatSleeps) {
  LinkedChannel linked;
  HelperThreads& helpers = linked.channel().helpers();
  HelperThreads::DriverWait wait{5000, nullptr, false};
  helpers.AddDriverWait(&wait);
  EXPECT_FALSE(linked.link().EarliestLimit().has_value());
  helpers.RemoveDriverWait(&wait);
  linked.channel().segment()->header.others_time_uses.store(1);
  helpers.AddDriverWait(&wait);
  const auto limit = linked.link().EarliestLimit();
  ASSERT_TRUE(limit.has_value());
  EXPECT_EQ(limit->ns, 5000);
  helpers.RemoveDriverWait(&wait);
  EXPECT_FALSE(linked.link().EarliestLimit().has_value());
}

}  // namespace
}  // namespace vrank::host
