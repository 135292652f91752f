// A thread that leaves its core loses its mark.

#include "virtual_host/system/preemption_mark.h"

#include <time.h>

#include <gtest/gtest.h>

namespace vrank::host {
namespace {

bool IsEverKept(PreemptionMark mark) {
  for (int i = 0; i < 1000; ++i) {  // some may be lost by chance
    mark.Set();
    if (mark.Kept())
      return true;
  }
  return false;
}

TEST(PreemptionMarkTest, ASleepLosesIt) {
  PreemptionMark mark = PreemptionMark::OfThisThread();
  if (!IsEverKept(mark))
    GTEST_SKIP() << "the C library has registered no rseq";
  for (int i = 0; i < 10; ++i) {
    mark.Set();
    const timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
    EXPECT_FALSE(mark.Kept());
  }
  EXPECT_TRUE(IsEverKept(mark));
}

TEST(PreemptionMarkTest, NoneIsNeverKept) {
  PreemptionMark none;
  none.Set();
  EXPECT_FALSE(none.Kept());
}

}  // namespace
}  // namespace vrank::host
