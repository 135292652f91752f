#include "emulator/host_time/machine.h"

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

TEST(MachineTest, TheCounterRunsAtAPlausibleSpeed) {
  const uint64_t ns = NsPer2To32Ticks();
  if (ns == 0)
    GTEST_SKIP() << "no counter that runs evenly";
  // 0.5 to 10 GHz.
  EXPECT_GT(ns, (uint64_t{1} << 32) / 10);
  EXPECT_LT(ns, (uint64_t{1} << 32) * 2);
}

TEST(MachineTest, CoresHaveTimes) {
  const CoreTimes times = ReadCoreTimes();
  EXPECT_GT(times.total_ms, 0);
  EXPECT_GE(times.total_ms, times.stolen_ms);
  EXPECT_FALSE(CpuModel().empty());
}

}  // namespace
}  // namespace vrank::emulator
