// Estimates, merging, what a busy machine is, and files.

#include "emulator/host_time/host_times.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guest/anchor_history.h"
#include "emulator/host_time/host_times_file.pb.h"
#include "tests/scratch_folder.h"

namespace vrank::emulator {
namespace {

using ::testing::HasSubstr;

// Kinds of anchors.
constexpr uint64_t kHere = uint64_t{5} << 48, kThere = uint64_t{6} << 48;

HostTimes Example() {
  HostTimes times;
  times.cpu = "a CPU";
  times.program = "train.py:12345678";
  times.runs = {{.gaps = 30,
                 .cpu_ns = 1'000'000'000,
                 .preempted = 5,
                 .stolen_ms = 1,
                 .cores_ms = 2000,
                 .iteration_ns = {30, 10, 20}}};
  times.gaps = {
      {7, {8, 100, 120, 150, 130, 20, {{kHere, {110, 12}}, {kThere, {160, 8}}}}},
      {9, {0, 10, 20, 30, 20, 10, {{kHere, {20, 10}}}}}};
  return times;
}

TEST(HostTimesTest, EstimatesAreOfTheOrderedValues) {
  EXPECT_EQ(Estimate({5}, 3), (GapEstimate{3, 5, 5, 5, 0, 1, {}}));
  EXPECT_EQ(Estimate({11, 3, 2, 1, 4, 5, 6, 10, 9, 8, 7}, 8),
            (GapEstimate{8, 2, 6, 10, 0, 11, {}}));
}

TEST(HostTimesTest, TheMeanIsOfWhatComesAgain) {
  EXPECT_EQ(RecurringMean({7}), 7);
  EXPECT_EQ(RecurringMean({8, 7}), 7);
  EXPECT_EQ(RecurringMean({1, 1000, 2}), 1);
  EXPECT_EQ(RecurringMean({9999, 777, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10}), 10);
  std::vector<int64_t> values(900, 10);
  for (size_t i = 0; i < values.size(); i += 10)
    values[i] = 1010;
  EXPECT_EQ(RecurringMean(values), 110);
  values[450] = 1'000'000'000;  // a module is loaded
  EXPECT_EQ(RecurringMean(values), 110);
}

// A log of every third to every tenth step, in a recording of two such or more.
TEST(HostTimesTest, WhatComesTwiceInARecordingIsInItsMean) {
  for (size_t every = 2; every <= 10; ++every)
    for (size_t n = 2 * every; n <= 100; ++n) {
      std::vector<int64_t> values(n, 10);
      for (size_t i = every - 1; i < n; i += every)
        values[i] = 1010;
      EXPECT_EQ(RecurringMean(values),
                10 + static_cast<int64_t>(1000 * (n / every) / n))
          << every << " of " << n;
    }
}

TEST(HostTimesTest, AFileHoldsThemWhole) {
  const ScratchFolder folder;
  const std::string file = folder / "example.vhost";
  ASSERT_TRUE(Example().Save(file).ok());
  const auto loaded = HostTimes::Load(file);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, Example());
}

TEST(HostTimesTest, MergedEstimatesAreAveragedByCount) {
  HostTimes times = Example(), other = Example();
  other.gaps = {{7, {8, 200, 220, 250, 230, 60, {{kThere, {200, 56}}, {0, {9, 4}}}}},
                {11, {1, 1, 2, 3, 2, 4, {}}}};
  ASSERT_TRUE(times.Merge(other).ok());
  EXPECT_EQ(times.runs.size(), 2u);
  EXPECT_EQ(times.gaps.size(), 3u);
  EXPECT_EQ(times.gaps.at(7),
            (GapEstimate{8,
                         175,
                         195,
                         225,
                         205,
                         80,
                         {{0, {9, 4}}, {kHere, {110, 12}}, {kThere, {195, 64}}}}));
  EXPECT_EQ(times.gaps.at(11), (GapEstimate{1, 1, 2, 3, 2, 4, {}}));
}

// The sum is that of the recording, however gaps end.
TEST(HostTimesTest, WhatDependsOnTheEndPassesThere) {
  const std::vector<protocol::RecordedGap> played = Example().Played(1'000'000);
  const auto of = [&](uint64_t key) {
    const auto at = std::find_if(
        played.begin(), played.end(),
        [key](const protocol::RecordedGap& gap) { return gap.key == key; });
    return at == played.end() ? protocol::RecordedGap{} : *at;
  };
  ASSERT_EQ(played.size(), 4u);
  EXPECT_EQ(of(7).ns, 110);
  EXPECT_EQ(of(7).rest_ns, 20);
  EXPECT_EQ(of(KeyOfEnd(7, kHere + 123)).ns, 0);
  EXPECT_EQ(of(KeyOfEnd(7, kThere)).ns, 50);
  EXPECT_EQ(of(9).ns, 20);
  EXPECT_EQ(of(9).rest_ns, protocol::RecordedGap::kEndsAlike);
  for (const protocol::RecordedGap& gap : Example().Played(2'000'000))
    EXPECT_EQ(gap.ns, of(gap.key).ns / 2);
}

TEST(HostTimesTest, TwoCpusOrProgramsDoNotMerge) {
  HostTimes times = Example(), other = Example();
  other.cpu = "another CPU";
  EXPECT_THAT(std::string(times.Merge(other).message()), HasSubstr("another CPU"));
  other = Example();
  other.program = "eval.py:1";
  EXPECT_THAT(std::string(times.Merge(other).message()), HasSubstr("eval.py"));
  EXPECT_EQ(times, Example());
}

TEST(HostTimesTest, ABusyMachineIsNamedByWhatTellsIt) {
  EXPECT_TRUE(CheckQuiet(Example()).ok());
  HostTimes times = Example();
  times.runs[0].preempted = 1000;
  EXPECT_THAT(std::string(CheckQuiet(times).message()),
              HasSubstr("lost their cores 1000"));
  times = Example();
  times.runs[0].stolen_ms = 200;
  EXPECT_THAT(std::string(CheckQuiet(times).message()), HasSubstr("10.0 %"));
}

// --- Files that are none

class HostTimesFileTest : public ::testing::Test {
 protected:
  static HostTimesFile Good() {
    HostTimesFile file;
    file.set_version(2);
    auto* gap = file.add_gaps();
    gap->set_key(7);
    gap->set_depth(8);
    gap->set_count(1);
    return file;
  }
  std::string ErrorOf(const std::string& bytes) const {
    std::ofstream(file_, std::ios::binary) << bytes;
    return std::string(HostTimes::Load(file_).status().message());
  }
  std::string ErrorOf(const HostTimesFile& file) const {
    return ErrorOf(file.SerializeAsString());
  }

  const ScratchFolder folder_;
  const std::string file_ = folder_ / "example.vhost";
};

TEST_F(HostTimesFileTest, TheGoodOneIsRead) {
  EXPECT_EQ(ErrorOf(Good()), "");
}

TEST_F(HostTimesFileTest, WhatMakesNoSenseIsAnError) {
  EXPECT_THAT(ErrorOf("no file of ours"), HasSubstr("no .vhost file"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("record it"));
  HostTimesFile file = Good();
  file.clear_gaps();
  EXPECT_THAT(ErrorOf(file), HasSubstr("no gaps"));
  for (const auto spoil : std::initializer_list<void (*)(HostTimesFile::Gap*)>{
           [](auto* gap) { gap->set_key(0); }, [](auto* gap) { gap->set_depth(5); },
           [](auto* gap) { gap->set_p10_ns(-1); },
           [](auto* gap) { gap->set_p10_ns(2); },
           [](auto* gap) { gap->set_p90_ns(int64_t{1} << 62); },
           [](auto* gap) { gap->set_count(0); }, [](auto* gap) { gap->add_ends(); },
           [](auto* gap) {
             gap->add_ends()->set_count(1);
             gap->mutable_ends(0)->set_kind(1 << 16);
           }}) {
    file = Good();
    spoil(file.mutable_gaps(0));
    EXPECT_THAT(ErrorOf(file), HasSubstr("makes no sense"));
  }
  file = Good();
  *file.add_gaps() = file.gaps(0);
  EXPECT_THAT(ErrorOf(file), HasSubstr("twice"));
  file = Good();
  file.add_runs()->set_cpu_ns(-1);
  EXPECT_THAT(ErrorOf(file), HasSubstr("run 1"));
  file = Good();
  file.set_version(99);
  EXPECT_THAT(ErrorOf(file), HasSubstr("99"));
}

TEST_F(HostTimesFileTest, AnyPrefixIsReadOrRefused) {
  ASSERT_TRUE(Example().Save(file_).ok());
  std::ifstream in(file_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (size_t length = 0; length < whole.size(); ++length)
    ErrorOf(whole.substr(0, length));
}

}  // namespace
}  // namespace vrank::emulator
