#include "graph/build/device_gaps.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using testing::ElementsAre;

class DeviceGapsTest : public testing::Test {
 protected:
  // A kernel whose call returned at `returned`.
  void Add(int64_t returned, int64_t start, int64_t end, uint32_t stream = 1) {
    const auto correlation = static_cast<uint32_t>(trace_.calls.size() + 1);
    TracedCall call{};
    call.correlation = correlation;
    call.start_ns = returned - 10;
    call.end_ns = returned;
    trace_.calls.push_back(call);
    TracedWork work;
    work.correlation = correlation;
    work.stream = stream;
    work.start_ns = start;
    work.end_ns = end;
    trace_.work.push_back(work);
  }

  RankTrace trace_;
};

TEST_F(DeviceGapsTest, WorkThatWasQueuedIsCountedFromTheEndBeforeIt) {
  Add(100, 1'000, 5'000);
  Add(200, 6'500, 9'000);
  Add(300, 10'000, 11'000);
  EXPECT_THAT(DeviceGaps(trace_), ElementsAre(0, 1'500, 1'000));
}

TEST_F(DeviceGapsTest, WorkOfOtherStreamsIsNotBeforeIt) {
  Add(100, 1'000, 5'000, 1);
  Add(200, 6'000, 7'000, 2);
  Add(300, 6'200, 8'000, 1);
  EXPECT_THAT(DeviceGaps(trace_), ElementsAre(0, 0, 1'200));
}

TEST_F(DeviceGapsTest, AGapInWhichTheHostCalledIsTheHosts) {
  Add(100, 1'000, 5'000);
  Add(5'500, 6'500, 9'000);
  EXPECT_THAT(DeviceGaps(trace_), ElementsAre(0, 0));
}

TEST_F(DeviceGapsTest, ALongGapIsAWait) {
  Add(100, 1'000, 5'000);
  Add(200, 9'001, 10'000);
  EXPECT_THAT(DeviceGaps(trace_), ElementsAre(0, 0));
}

TEST_F(DeviceGapsTest, AVirtualGpuHasThatOfItsModel) {
  trace_.session.virtual_gpu = true;
  Add(100, 1'000, 5'000);
  Add(200, 6'500, 9'000);
  Add(300, 9'000, 9'500);
  trace_.work.back().work = WorkClass::kHostFunc;
  EXPECT_THAT(DeviceGaps(trace_), ElementsAre(0, 0, 0));
  trace_.session.kernel_gap_ns = 700;
  EXPECT_THAT(DeviceGaps(trace_), ElementsAre(700, 700, 0));
}

}  // namespace
}  // namespace vrank::graph
