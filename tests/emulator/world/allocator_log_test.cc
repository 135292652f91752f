#include "emulator/world/allocator_log.h"

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

TEST(AllocatorLogTest, TellsWhatWasHeldBeforeAnOp) {
  AllocatorLog log;
  EXPECT_EQ(log.Peak(), AllocatorBytes());
  log.Add(10, 0, {100, 200});
  log.Add(20, 0, {150, 200});
  EXPECT_EQ(log.Before(10), AllocatorBytes());
  EXPECT_EQ(log.Before(11), (AllocatorBytes{100, 200}));
  EXPECT_EQ(log.Before(20), (AllocatorBytes{100, 200}));
  EXPECT_EQ(log.Peak(), (AllocatorBytes{150, 200}));
}

TEST(AllocatorLogTest, OfSeveralGpusTheFullestCounts) {
  AllocatorLog log;
  log.Add(10, 0, {100, 900});
  log.Add(11, 1, {300, 400});
  EXPECT_EQ(log.Before(11), (AllocatorBytes{100, 900}));
  EXPECT_EQ(log.Peak(), (AllocatorBytes{300, 400}));
}

TEST(AllocatorLogTest, LongRunsKeepTheirLatestPoint) {
  AllocatorLog log;
  constexpr uint64_t kPoints = 5 * AllocatorLog::kMostPoints;
  for (uint64_t op = 1; op <= kPoints; ++op)
    log.Add(op, 0, {op, op});
  EXPECT_EQ(log.Peak(), (AllocatorBytes{kPoints, kPoints}));
  for (const uint64_t op : {kPoints / 10, kPoints / 2, kPoints}) {
    EXPECT_LT(log.Before(op).allocated, op);
    EXPECT_GT(log.Before(op).allocated, op - kPoints / 100);
  }
}

}  // namespace
}  // namespace vrank::emulator
