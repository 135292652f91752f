#include "tools/compare/host_time_comparison.h"

#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/report/host_time_report.h"

namespace vrank::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

// A recording with 100 gaps that occur ten times each, and one of start-up.
HostTimeRecordingFile Recording(const std::string& path, double factor) {
  HostTimeRecordingFile file{path, {}};
  file.times.cpu = "A CPU";
  file.times.program = "program";
  file.times.runs.push_back({.gaps = 1000,
                             .cpu_ns = 1'000'000'000,
                             .preempted = 1,
                             .stolen_ms = 0,
                             .cores_ms = 10'000,
                             .iteration_ns = {}});
  for (uint64_t key = 1; key <= 100; ++key) {
    const auto ns = static_cast<int64_t>(factor * 1000 * static_cast<double>(key));
    file.times.gaps[key] = {8, ns, ns, ns, ns, 10};
    file.times.gaps[1000 + key] = {3,  ns, ns,
                                   ns, ns, 10};  // the same gaps by fewer calls
  }
  file.times.gaps[999] = {8, 1'000'000'000, 1'000'000'000, 1'000'000'000, 1'000'000'000,
                          1};
  return file;
}

std::vector<HostTimeRecordingFile> Side(double factor, double spread, unsigned seed,
                                        size_t count = 8) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, spread);
  std::vector<HostTimeRecordingFile> files;
  for (size_t i = 0; i < count; ++i) {
    files.push_back(Recording("r" + std::to_string(i), factor * (1 + noise(random))));
    // No two runs are equal to the nanosecond.
    files.back().times.runs[0].cpu_ns += static_cast<int64_t>(100 * seed + i);
  }
  return files;
}

HostTimeComparison Compared(const std::vector<HostTimeRecordingFile>& base,
                            const std::vector<HostTimeRecordingFile>& updated) {
  const auto comparison = CompareHostTimes(base, updated, false);
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  return *comparison;
}

Limit Limited(const std::string& text) {
  return *ParseLimit(text);
}

TEST(HostTimeComparisonTest, FivePercentAreFoundAndNothingIsNot) {
  int found = 0, alarms = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto base = Side(1, 0.01, 2 * seed);
    found += Compared(base, Side(1.05, 0.01, 2 * seed + 1)).verdict ==
             HostTimeVerdict::kSlower;
    alarms +=
        *Judge(Limited("host_time > +1%"),
               Compared(base, Side(1, 0.01, 2 * seed + 1))) == LimitOutcome::kBroken;
  }
  EXPECT_EQ(found, 40);
  EXPECT_EQ(alarms, 0);
}

TEST(HostTimeComparisonTest, CountsRepeatedGapsOnceEach) {
  const auto comparison = Compared(Side(1, 0, 1), Side(2, 0, 1));
  EXPECT_EQ(comparison.base.host_ns, 10 * 1000 * 5050);
  EXPECT_EQ(comparison.base.calls, 1000u);
  EXPECT_NEAR(comparison.change, 1, 1e-9);
  EXPECT_EQ(comparison.verdict, HostTimeVerdict::kSlower);
  EXPECT_EQ(Compared(Side(2, 0, 1), Side(1, 0, 1)).verdict, HostTimeVerdict::kFaster);
}

// Start-up, and what the program computes outside its iterations, does not count where
// iterations are known.
TEST(HostTimeComparisonTest, IterationsAreCompared) {
  auto base = Side(1, 0, 1), updated = Side(3, 0, 2);
  for (auto* side : {&base, &updated})
    for (auto& file : *side)
      file.times.runs[0].iteration_ns = {9'000'000, 2'000'000, 2'100'000,
                                         2'000'000, 8'000'000, 2'000'000};
  const auto equal = Compared(base, updated);
  EXPECT_TRUE(equal.by_iteration);
  EXPECT_EQ(equal.base.host_ns, 2'000'000);
  EXPECT_EQ(equal.base.iterations, 5u);
  EXPECT_EQ(equal.verdict, HostTimeVerdict::kEqual);
  for (auto& file : updated)
    for (int64_t& ns : file.times.runs[0].iteration_ns)
      ns += ns / 10;
  const auto slower = Compared(base, updated);
  EXPECT_NEAR(slower.change, 0.1, 1e-6);
  EXPECT_EQ(slower.verdict, HostTimeVerdict::kSlower);
}

TEST(HostTimeComparisonTest, OneRecordingGivenTwiceIsRefused) {
  auto base = Side(1, 0.01, 1), updated = Side(1, 0.01, 2);
  updated[3] = base[6];
  updated[3].path = "copy";
  EXPECT_THAT(std::string(CompareHostTimes(base, updated, true).status().message()),
              HasSubstr("'r6' and 'copy' are one recording"));
}

TEST(HostTimeComparisonTest, RecordingsOfOtherNumbersOfIterationsAreRefused) {
  auto base = Side(1, 0, 1), updated = Side(1, 0, 2);
  for (auto* side : {&base, &updated})
    for (auto& file : *side)
      file.times.runs[0].iteration_ns.assign(10, 2'000'000);
  updated[2].times.runs[0].iteration_ns.assign(20, 2'000'000);
  EXPECT_THAT(std::string(CompareHostTimes(base, updated, false).status().message()),
              HasSubstr("'r0' is of 9 iterations besides the first, 'r2' of 19"));
  EXPECT_TRUE(CompareHostTimes(base, updated, true)->by_iteration);
  // One that has none leaves nothing but the whole run to compare.
  updated[2].times.runs[0].iteration_ns.clear();
  EXPECT_THAT(std::string(CompareHostTimes(base, updated, false).status().message()),
              HasSubstr("'r2' of 0"));
  EXPECT_FALSE(CompareHostTimes(base, updated, true)->by_iteration);
}

TEST(HostTimeComparisonTest, EqualIsSaidWhereTheIntervalIsNarrow) {
  EXPECT_EQ(Compared(Side(1, 0.005, 1), Side(1, 0.005, 2)).verdict,
            HostTimeVerdict::kEqual);
  const auto wide = Compared(Side(1, 0.1, 1), Side(1, 0.1, 4));
  EXPECT_EQ(wide.verdict, HostTimeVerdict::kCannotTell);
  EXPECT_THAT(wide.why_not, HasSubstr("differ among themselves"));
  EXPECT_EQ(*Judge(Limited("host_time > +2%"), wide), LimitOutcome::kCannotTell);
}

TEST(HostTimeComparisonTest, ABusyMachineCannotTell) {
  auto base = Side(1, 0.001, 1);
  base[3].times.runs[0].preempted = 1000;
  const auto comparison = Compared(base, Side(1.5, 0.001, 2));
  EXPECT_EQ(comparison.verdict, HostTimeVerdict::kCannotTell);
  EXPECT_THAT(comparison.why_not, HasSubstr("'r3' was recorded on a busy machine"));
  EXPECT_THAT(comparison.why_not, Not(HasSubstr("--force-host-time")))
      << "an option of another command";
  EXPECT_EQ(*Judge(Limited("host_time > +2%"), comparison), LimitOutcome::kCannotTell);
}

TEST(HostTimeComparisonTest, LimitsAreJudgedByTheInterval) {
  const auto comparison = Compared(Side(1, 0.005, 1), Side(1.05, 0.005, 2));
  EXPECT_EQ(*Judge(Limited("host_time > +2%"), comparison), LimitOutcome::kBroken);
  EXPECT_EQ(*Judge(Limited("host_time > +10%"), comparison), LimitOutcome::kHolds);
  EXPECT_EQ(*Judge(Limited("host_time > +5%"), comparison), LimitOutcome::kCannotTell);
  EXPECT_THAT(Judge(Limited("host_time > 5ms"), comparison).status().message(),
              HasSubstr("a change in percent"));
  EXPECT_THAT(Judge(Limited("iteration_time > +5%"), comparison).status().message(),
              HasSubstr("there is host_time"));
}

TEST(HostTimeComparisonTest, UnfitRecordingsAreRefused) {
  const auto refusal = [](const auto& base, const auto& updated) {
    return std::string(CompareHostTimes(base, updated, false).status().message());
  };
  const auto base = Side(1, 0.01, 1);
  EXPECT_THAT(refusal(base, Side(1, 0.01, 2, 4)), HasSubstr("5 of each are needed"));
  auto other_cpu = Side(1, 0.01, 2);
  other_cpu[0].times.cpu = "Another CPU";
  EXPECT_THAT(refusal(base, other_cpu), HasSubstr("recordings of one machine"));
  auto half = Side(1, 0.01, 2);
  for (auto& file : half)
    for (auto& [key, gap] : file.times.gaps)
      gap.count = gap.count / 2;
  EXPECT_THAT(refusal(base, half), HasSubstr("number of iterations"));
  EXPECT_TRUE(CompareHostTimes(base, half, true).ok());
  auto once = Side(1, 0.01, 2);
  for (auto& [key, gap] : once[2].times.gaps)
    gap.count = 1;
  EXPECT_THAT(refusal(base, once), HasSubstr("'r2': no gap of it repeats"));
}

TEST(HostTimeComparisonTest, JsonStatesTheIntervalAndTheOutcomes) {
  const auto comparison = Compared(Side(1, 0.005, 1), Side(1.05, 0.005, 2));
  const auto json = nlohmann::json::parse(HostTimeComparisonJson(
      comparison, {{Limited("host_time > +2%"), LimitOutcome::kBroken}}));
  EXPECT_EQ(json.at("verdict"), "slower");
  EXPECT_TRUE(json.at("why").is_null());
  EXPECT_LT(json.at("interval")[0], json.at("change"));
  EXPECT_EQ(json.at("limits")[0].at("outcome"), "fails");
  EXPECT_THAT(HostTimeComparisonText(
                  comparison, {{Limited("host_time > +2%"), LimitOutcome::kBroken}}),
              HasSubstr("FAILS: host_time > +2%"));
}

}  // namespace
}  // namespace vrank::tools
