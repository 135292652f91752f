// Stretches are timed by the counter while the thread stays on its core, else by what
// its CPU clock says.

#include "virtual_host/system/cpu_meter.h"

#include <gtest/gtest.h>

namespace vrank::host {
namespace {

// A thread's clocks; the meter reads them through Reader.
struct Clocks {
  int64_t now = 1'000'000, cpu = 5'000;
  bool kept = false;
  int cpu_readings = 0;

  void Run(int64_t ns) {
    now += ns;
    cpu += ns;
  }
  // Another thread has the core meanwhile.
  void Lose(int64_t ns) {
    now += ns;
    kept = false;
  }
};

struct Reader {
  Clocks* clocks;
  int64_t Now() const { return clocks->now; }
  void Mark() { clocks->kept = true; }
  bool Kept() const { return clocks->kept; }
  int64_t Cpu() {
    ++clocks->cpu_readings;
    return clocks->cpu;
  }
};

class CpuMeterTest : public ::testing::Test {
 protected:
  // What the program uses in a stretch that `run` is.
  template <typename Run>
  int64_t Used(Run run) {
    meter_.Resume();
    run();
    meter_.Pause();
    return meter_.Take();
  }

  Clocks clocks_;
  CpuMeter<Reader> meter_{Reader{&clocks_}};
};

TEST_F(CpuMeterTest, CountsTheProgramAlone) {
  clocks_.Run(700);  // ours
  EXPECT_EQ(Used([&] { clocks_.Run(40); }), 40);
  clocks_.Run(900);
  EXPECT_EQ(Used([&] { clocks_.Run(60); }), 60);
  EXPECT_EQ(clocks_.cpu_readings, 1);  // at the begin
}

TEST_F(CpuMeterTest, APauseWithinAGapIsLeftOut) {
  meter_.Resume();
  clocks_.Run(10);
  meter_.Pause();
  clocks_.Run(500);
  meter_.Resume();
  clocks_.Run(7);
  meter_.Pause();
  EXPECT_EQ(meter_.Take(), 17);
  EXPECT_EQ(meter_.Take(), 0);
}

TEST_F(CpuMeterTest, TimeOffTheCoreIsNone) {
  clocks_.Run(300);
  EXPECT_EQ(Used([&] {
              clocks_.Run(40);
              clocks_.Lose(1'000'000);
              clocks_.Run(2);
            }),
            42);
  EXPECT_EQ(clocks_.cpu_readings, 2);
  EXPECT_EQ(Used([&] { clocks_.Run(5); }), 5);
  EXPECT_EQ(clocks_.cpu_readings, 2);
}

TEST_F(CpuMeterTest, AWaitOfOursIsNotTheProgramsLater) {
  clocks_.Run(50);
  clocks_.Lose(9'000'000);
  clocks_.Run(50);
  EXPECT_EQ(Used([&] { clocks_.Run(11); }), 11);
  EXPECT_EQ(Used([&] {
              clocks_.Run(3);
              clocks_.Lose(100);
            }),
            3);
}

TEST_F(CpuMeterTest, WhatAMarkHasMissedIsSettled) {
  // The thread was off its core for 800 ns, and no mark says so.
  EXPECT_EQ(Used([&] {
              clocks_.Run(100);
              clocks_.now += 800;
            }),
            900);
  int64_t used = 0;
  for (int i = 0; i < CpuMeter<Reader>::kSettleAfter; ++i)
    used += Used([&] { clocks_.Run(1000); });
  EXPECT_EQ(used, CpuMeter<Reader>::kSettleAfter * 1000 - 800);
}

TEST_F(CpuMeterTest, WithoutAMarkTheCpuClockCountsAlone) {
  for (int i = 0; i < 1000; ++i) {
    clocks_.kept = false;
    clocks_.Run(5);
    EXPECT_EQ(Used([&] {
                clocks_.Run(70);
                clocks_.Lose(30);
              }),
              70);
  }
}

TEST_F(CpuMeterTest, NoStretchIsNegative) {
  meter_.Resume();
  clocks_.now += 10'000;  // missed, more than the next ones use
  meter_.Pause();
  meter_.Take();
  for (int i = 0; i < 300; ++i)
    EXPECT_GE(Used([&] { clocks_.Run(1); }), 0);
}

}  // namespace
}  // namespace vrank::host
