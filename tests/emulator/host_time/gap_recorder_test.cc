// Gaps come back under the keys by which a rank asks for them.

#include "emulator/host_time/gap_recorder.h"

#include <vector>

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

const uint64_t kA = MakeAnchor("a"), kB = MakeAnchor("b");

protocol::HostGaps Batch(uint32_t thread, uint64_t role = 1, uint64_t end = kA) {
  protocol::HostGaps batch{};
  batch.end = end;
  batch.role = role;
  batch.thread = thread;
  batch.preempted = 3;
  return batch;
}

TEST(GapRecorderTest, KeysAreThoseThatARankAsksBy) {
  GapRecorder recorder;
  // A thread's batches follow one another; another thread's lie between.
  recorder.Add(0, Batch(1), std::vector<protocol::HostGap>{{kA, 10}, {kB, 20}});
  recorder.Add(0, Batch(2), std::vector<protocol::HostGap>{{kB, 1000}});
  recorder.Add(0, Batch(1), std::vector<protocol::HostGap>{{kA, 30}});
  const HostTimes times = recorder.Collected();
  AnchorHistory history(1);
  history.Pass(kA);
  history.Pass(kB);
  const GapKeys third = history.Pass(kA);
  const uint64_t kind_of_a = kA & kAnchorKind, kind_of_b = kB & kAnchorKind;
  const GapEstimate expected{8, 30, 30, 30, 30, 1, {{kind_of_a, {30, 1}}}};
  EXPECT_EQ(times.gaps.at(third.keys[0]), expected);
  // Both of thread 1 behind `a`, on a way that was new.
  EXPECT_EQ(times.gaps.at(third.keys[3]),
            (GapEstimate{
                0, 10, 10, 10, 10, 2, {{kind_of_b, {10, 1}}, {kind_of_a, {30, 1}}}}));
  ASSERT_EQ(times.runs.size(), 1u);
  EXPECT_EQ(times.runs[0].gaps, 4u);
  EXPECT_EQ(times.runs[0].cpu_ns, 1060);
  EXPECT_EQ(times.runs[0].preempted, 9u);
}

// A data loader's worker: its gaps are played, and are no CPU time of the iteration.
TEST(GapRecorderTest, FollowersAreNoPartOfTheRun) {
  GapRecorder recorder;
  recorder.Add(0, Batch(1), std::vector<protocol::HostGap>{{kA, 10}});
  recorder.AddOfFollower(0, Batch(2, /*role=*/7, /*end=*/kB), {kA, 30});
  const HostTimes times = recorder.Collected();
  EXPECT_EQ(times.runs[0].gaps, 1u);
  EXPECT_EQ(times.runs[0].cpu_ns, 10);
  const GapEstimate expected{8, 30, 30, 30, 30, 1, {{kB & kAnchorKind, {30, 1}}}};
  EXPECT_EQ(times.gaps.at(AnchorHistory(7).Pass(kA).keys[0]), expected);
}

TEST(GapRecorderTest, RanksHaveHistoriesOfTheirOwnAndShareKeys) {
  GapRecorder recorder;
  for (const int32_t rank : {0, 1})
    recorder.Add(rank, Batch(1), std::vector<protocol::HostGap>{{kA, 10 + rank}});
  const HostTimes times = recorder.Collected();
  for (const auto& [key, gap] : times.gaps)
    EXPECT_EQ(gap.count, 2u);
}

// In every fifth iteration a log reads the clock: the gap after `a` ends there at once,
// and the computing follows the reading.
TEST(GapRecorderTest, HowAGapEndsTellsItsMeans) {
  const uint64_t kind_of_b = kB & kAnchorKind;
  const uint64_t clock = MakeAnchor("clock"), kind_of_clock = clock & kAnchorKind;
  GapRecorder recorder;
  std::vector<protocol::HostGap> gaps;
  for (int64_t i = 0; i < 100; ++i) {
    gaps.push_back({RefineAnchor(kB, static_cast<uint64_t>(i)), 10});
    gaps.push_back({kA, i % 5 == 4 ? 1 : 5'000});
    if (i % 5 == 4)
      gaps.push_back({clock, 5'001});
  }
  recorder.Add(0, Batch(1, 1, kB), gaps);
  AnchorHistory history(1);
  GapKeys behind_a;
  for (int i = 0; i < 2; ++i)  // not the first
    behind_a = history.Pass(kA);
  const GapEstimate gap = recorder.Collected().gaps.at(behind_a.keys[2]);
  EXPECT_EQ(gap.depth, 1u);
  EXPECT_EQ(gap.ends.size(), 2u);
  EXPECT_EQ(gap.ends.at(kind_of_b).mean_ns, 5'000);
  EXPECT_EQ(gap.ends.at(kind_of_clock).mean_ns, 1);
  EXPECT_EQ(gap.ends.at(kind_of_b).count + gap.ends.at(kind_of_clock).count, gap.count);
}

TEST(GapRecorderTest, ManyGapsTakeLittleRoom) {
  GapRecorder recorder;
  constexpr int64_t kGaps = 100'000;
  std::vector<protocol::HostGap> gaps;
  for (int64_t i = 0; i < kGaps; ++i)
    gaps.push_back({kA, i});
  recorder.Add(0, Batch(1), gaps);
  GapEstimate often;
  for (const auto& [key, gap] : recorder.Collected().gaps)
    if (gap.count > often.count)
      often = gap;
  EXPECT_GT(often.count, static_cast<uint64_t>(kGaps - 2100));
  EXPECT_NEAR(static_cast<double>(often.median_ns), kGaps / 2.0, kGaps / 50.0);
  EXPECT_NEAR(static_cast<double>(often.p10_ns), kGaps / 10.0, kGaps / 50.0);
}

// Of a key with more gaps than there are samples, and one of a hundred is long.
TEST(GapRecorderTest, TheMeanIsOfAllGaps) {
  GapRecorder recorder;
  std::vector<protocol::HostGap> gaps;
  for (int64_t i = 0; i < 50'000; ++i)
    gaps.push_back({kA, i % 100 == 99 ? 100'000 : 10});
  recorder.Add(0, Batch(1), gaps);
  GapEstimate often;
  for (const auto& [key, gap] : recorder.Collected().gaps)
    if (gap.depth == 8 && gap.count > often.count)
      often = gap;
  EXPECT_EQ(often.median_ns, 10);
  EXPECT_NEAR(static_cast<double>(often.mean_ns), 1009.9, 20);
}

TEST(GapRecorderTest, ABrokenGapIsNone) {
  GapRecorder recorder;
  recorder.Add(0, Batch(1), std::vector<protocol::HostGap>{{kA, -5}});
  for (const auto& [key, gap] : recorder.Collected().gaps)
    EXPECT_EQ(gap.median_ns, 0);
}

}  // namespace
}  // namespace vrank::emulator
