#include "graph/import/schedule_import.h"

#include <map>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "graph/import/schedule.pb.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/replayed_graph.h"

namespace vrank::graph {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two stages of a pipeline, each with a pass of its own and a sum at the end. Rank 1
// waits for what rank 0 sends; ranks begin 7 ns apart.
constexpr char kTwoStages[] = R"(
  world_size: 2 gpu: "a GPU"
  group { name: "both" rank: [0, 1] }
  rank { rank: 0 step { name: "ProfilerStep 1" begin_ns: 100 end_ns: 400
    task { name: "forward" lane: "compute" ns: 50 end_ns: 150 }
    task { name: "send" lane: "send" ns: 90 after: [0] send_to: 1 }
    task { name: "forward" lane: "compute" ns: 50 end_ns: 200 }
    task { name: "sum" lane: "sums" ns: 30 after: [1, 2]
           group: "both" operation: "all_reduce" }
  } }
  rank { rank: 1 step { name: "ProfilerStep 1" begin_ns: 107 end_ns: 400
    task { name: "receive" lane: "receive" ns: 20 receive_from: 0 }
    task { name: "forward" lane: "compute" ns: 200 after: [0] gap_ns: 5 }
    task { name: "sum" lane: "sums" ns: 10 after: [1]
           group: "both" operation: "all_reduce" }
  } })";

class ScheduleImportTest : public ::testing::Test {
 protected:
  static absl::StatusOr<ImportedRun> Import(const std::string& text) {
    Schedule schedule;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schedule));
    return ImportSchedule(schedule, "a file");
  }
  static std::map<int32_t, ReplayedRank> Replay(const std::string& text) {
    const auto run = Import(text);
    EXPECT_TRUE(run.ok()) << run.status();
    auto replayed = ReplayImported(run->graph);
    EXPECT_TRUE(replayed.ok()) << replayed.status();
    return *std::move(replayed);
  }
  static std::string Replaced(std::string text, const std::string& from,
                              const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  static std::string Error(const std::string& from, const std::string& to) {
    return Import(Replaced(kTwoStages, from, to)).status().ToString();
  }
};

TEST_F(ScheduleImportTest, TasksStartByWhatTheyNeedAndMeetTheirPartners) {
  const auto ranks = Replay(kTwoStages);
  // The transfer begins at 50, when rank 0 comes, and takes the shorter of both
  // lengths; rank 1's pass begins 5 after it, and the sum with rank 1: 50 + 20 + 5 +
  // 200 + 10.
  EXPECT_THAT(ranks.at(0).ends_ns, ElementsAre(50, 70, 100, 285));
  EXPECT_THAT(ranks.at(1).ends_ns, ElementsAre(70, 275, 285));
  EXPECT_THAT(ranks.at(0).iterations_ns, ElementsAre(285));
  EXPECT_THAT(ranks.at(1).iterations_ns, ElementsAre(278));
}

TEST_F(ScheduleImportTest, WhatOneRankTakesLongerAllWaitFor) {
  const auto ranks = Replay(Replaced(kTwoStages, "ns: 50 end_ns: 150", "ns: 1050"));
  EXPECT_THAT(ranks.at(0).iterations_ns, ElementsAre(1285));
  EXPECT_THAT(ranks.at(1).iterations_ns, ElementsAre(1278));
}

TEST_F(ScheduleImportTest, KeepsWhatWasRecorded) {
  const auto run = Import(kTwoStages);
  ASSERT_TRUE(run.ok()) << run.status();
  const RecordedRank& rank = run->graph.recorded_ranks.at(0);
  EXPECT_THAT(rank.ends_ns,
              ElementsAre(50, RecordedRank::kNoEnd, 100, RecordedRank::kNoEnd));
  ASSERT_EQ(rank.iterations.size(), 1u);
  EXPECT_EQ(rank.iterations[0].end_ns, 300);
  EXPECT_EQ(run->graph.recorded_ranks.at(1).unexplained_device_ns, 5);
}

TEST_F(ScheduleImportTest, OneErrorNamesThePlaceAndAWayOut) {
  EXPECT_THAT(Error("world_size: 2", "world_size: 3"),
              HasSubstr("2 ranks of a world of 3; give all"));
  EXPECT_THAT(Error("world_size: 2", "world_size: -1"), HasSubstr("world_size -1"));
  EXPECT_THAT(Error("rank { rank: 1", "rank { rank: 0"),
              HasSubstr("rank 0 is listed twice"));
  EXPECT_THAT(Error("rank: [0, 1]", "rank: [1, 0]"), HasSubstr("group 'both'"));
  EXPECT_THAT(Error("ns: 200 after", "ns: -1 after"),
              AllOf(HasSubstr("rank 1, ProfilerStep 1"), HasSubstr("task 1 'forward'"),
                    HasSubstr("takes -1 ns")));
  EXPECT_THAT(Error("ns: 200 after", "ns: 9223372036854775807 after"),
              HasSubstr("correct them"));
  EXPECT_THAT(Error("end_ns: 200", "end_ns: 99"), HasSubstr("before its step"));
  EXPECT_THAT(Error("after: [1, 2]", "after: [3]"),
              HasSubstr("comes after task 3, which is no earlier one"));
  EXPECT_THAT(Error("lane: \"sums\"", "lane: \"\""), HasSubstr("no lane"));
  EXPECT_THAT(Error("begin_ns: 107", "begin_ns: 507"), HasSubstr("ends before"));
  EXPECT_THAT(Error("begin_ns: 107 end_ns: 400",
                    "begin_ns: 4000000000000000000 end_ns: 4000000000000000000"),
              HasSubstr("days after the first begins"));
  EXPECT_THAT(Error("send_to: 1", "send_to: 0"), HasSubstr("no other rank"));
  EXPECT_THAT(Error("receive_from: 0", ""),
              HasSubstr("rank 0 sends 1 times to rank 1, which receives 0 times"));
  EXPECT_THAT(Error("operation: \"all_reduce\"", "operation: \"all_gather\""),
              AllOf(HasSubstr("collective 0 is all_gather on rank 0"),
                    HasSubstr("all_reduce on rank 1")));
  EXPECT_THAT(Error("operation: \"all_reduce\"", "operation: \"sum\""),
              HasSubstr("there is no operation 'sum'"));
  EXPECT_THAT(Error("group: \"both\" operation", "group: \"none\" operation"),
              HasSubstr("there is no group 'none'"));
}

TEST_F(ScheduleImportTest, DamagedFilesAreErrors) {
  const ProfileFiles files;
  const std::string whole = kTwoStages;
  for (size_t length = 0; length < whole.size(); length += 7) {
    const std::string path = files.Write("cut", whole.substr(0, length));
    EXPECT_THAT(ReadSchedule(path).status().ToString(), HasSubstr(path));
  }
  EXPECT_THAT(ReadSchedule(files.Write("more", whole + "}")).status().ToString(),
              HasSubstr("more'"));
}

// What is read is either refused or plays.
TEST_F(ScheduleImportTest, AnyFieldMayHoldAnything) {
  std::mt19937 random(3);
  const char* const numbers[] = {"-1", "0",   "1",          "2",
                                 "3",  "400", "2147483647", "-2147483648"};
  int played = 0;
  for (int i = 0; i < 400; ++i) {
    std::string text = kTwoStages;
    for (uint32_t change = random() % 3; change-- > 0;) {
      size_t digit = text.find_first_of("0123456789", random() % text.size());
      if (digit == std::string::npos || text[digit - 1] == 'p')
        continue;
      const size_t end = text.find_first_not_of("0123456789", digit);
      text.replace(digit, end - digit, numbers[random() % std::size(numbers)]);
    }
    Schedule schedule;
    if (!google::protobuf::TextFormat::ParseFromString(text, &schedule))
      continue;
    const auto run = ImportSchedule(schedule, "a file");
    if (!run.ok())
      continue;
    played += ReplayImported(run->graph).ok();
  }
  EXPECT_GT(played, 100);
}

}  // namespace
}  // namespace vrank::graph
