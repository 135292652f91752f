// Runs that others recorded, replayed. The recordings are no part of this repository:
// the tests skip, saying so, where they are not beside it.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/import/kineto_import.h"
#include "tests/graph/import/replayed_graph.h"

namespace vrank::graph {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> FilesOf(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(fs::path(VRANK_RECORDINGS) / folder, error))
    if (entry.path().filename().string().rfind(prefix, 0) == 0)
      files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

#define SKIP_WITHOUT(files)                                                         \
  if ((files).empty())                                                              \
  GTEST_SKIP() << VRANK_RECORDINGS << " holds no recording of this kind; it is no " \
               << "part of the repository"

int64_t Median(std::vector<int64_t> values) {
  std::nth_element(values.begin(),
                   values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Every iteration within half a percent.
void ExpectIterations(const ExecutionGraph& graph,
                      const std::map<int32_t, ReplayedRank>& replayed) {
  for (const RecordedRank& recorded : graph.recorded_ranks) {
    const ReplayedRank& rank = replayed.at(recorded.rank);
    ASSERT_EQ(rank.iterations_ns.size(), recorded.iterations.size());
    for (size_t i = 0; i < rank.iterations_ns.size(); ++i) {
      const auto expected = static_cast<double>(recorded.iterations[i].end_ns -
                                                recorded.iterations[i].begin_ns);
      EXPECT_NEAR(static_cast<double>(rank.iterations_ns[i]) / expected, 1, 0.005)
          << recorded.iterations[i].name << " of rank " << recorded.rank;
    }
  }
}

TEST(RecordedRunsTest, ReplaysEightRanksOfDlrm) {
  const auto files = FilesOf("dlrm_8xV100", "kineto_rank");
  SKIP_WITHOUT(files);
  const auto import = ImportKineto({files, FilesOf("dlrm_8xV100", "et_rank")});
  ASSERT_TRUE(import.ok()) << import.status();
  const auto replayed = ReplayImported(import->graph);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  ASSERT_EQ(replayed->size(), 8u);
  ExpectIterations(import->graph, *replayed);
  std::vector<int64_t> errors;
  for (const RecordedRank& recorded : import->graph.recorded_ranks) {
    const ReplayedRank& rank = replayed->at(recorded.rank);
    for (size_t i = 0; i < rank.ends_ns.size(); ++i)
      if (rank.is_collective[i])
        errors.push_back(std::abs(rank.ends_ns[i] - recorded.ends_ns[i]));
  }
  // 5 all-to-alls and 3 all-reduces on each.
  ASSERT_EQ(errors.size(), 64u);
  EXPECT_LE(Median(errors), 50'000);
  EXPECT_LE(*std::max_element(errors.begin(), errors.end()), 500'000);
}

// Ends of collectives, by number, of one rank.
std::vector<int64_t> CollectiveEnds(const ReplayedRank& rank) {
  std::vector<int64_t> ends;
  for (size_t i = 0; i < rank.ends_ns.size(); ++i)
    if (rank.is_collective[i])
      ends.push_back(rank.ends_ns[i]);
  return ends;
}

// A kernel that the first collective does not wait for has room before it; what it
// takes beyond that, every rank takes longer.
TEST(RecordedRunsTest, DelaysEveryRankOfDlrmByAKernelOfOne) {
  const auto files = FilesOf("dlrm_8xV100", "kineto_rank");
  SKIP_WITHOUT(files);
  auto import = ImportKineto({files, {}});
  ASSERT_TRUE(import.ok()) << import.status();
  const auto before = ReplayImported(import->graph);
  ASSERT_TRUE(before.ok()) << before.status();
  // Rank 7 comes last; the kernel before its first all-to-all is what that sends.
  constexpr int32_t kLast = 7;
  const ReplayedRank& last = before->at(kLast);
  const auto first = static_cast<size_t>(
      std::find(last.is_collective.begin(), last.is_collective.end(), true) -
      last.is_collective.begin());
  ASSERT_GT(first, 0u);
  // Long enough for the collective to wait for it alone, then 1 ms more.
  constexpr int64_t kRoomNs = 2'000'000, kMoreNs = 1'000'000;
  Lengthen(kLast, first - 1, kRoomNs, &import->graph);
  const auto limited = ReplayImported(import->graph);
  ASSERT_TRUE(limited.ok()) << limited.status();
  Lengthen(kLast, first - 1, kMoreNs, &import->graph);
  const auto after = ReplayImported(import->graph);
  ASSERT_TRUE(after.ok()) << after.status();
  for (int32_t rank = 0; rank < 8; ++rank) {
    SCOPED_TRACE(rank);
    EXPECT_GT(CollectiveEnds(limited->at(rank))[0],
              CollectiveEnds(before->at(rank))[0]);
    EXPECT_EQ(CollectiveEnds(after->at(rank))[0] - CollectiveEnds(limited->at(rank))[0],
              kMoreNs);
    EXPECT_EQ(after->at(rank).iterations_ns[0] - limited->at(rank).iterations_ns[0],
              kMoreNs);
  }
}

struct SingleRank {
  const char* folder;
  const char* prefix;
  size_t works;  // kernels, copies and memsets in the file
  std::set<std::string> losses;
};

class SingleRankTest : public ::testing::TestWithParam<SingleRank> {};

TEST_P(SingleRankTest, IsReplayedWithoutAnUncountedLoss) {
  const auto files = FilesOf(GetParam().folder, GetParam().prefix);
  SKIP_WITHOUT(files);
  ASSERT_EQ(files.size(), 1u);
  const auto import = ImportKineto({files, {}});
  ASSERT_TRUE(import.ok()) << import.status();
  const auto replayed = ReplayImported(import->graph);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  ExpectIterations(import->graph, *replayed);
  ASSERT_EQ(import->graph.recorded_ranks.size(), 1u);
  EXPECT_EQ(import->graph.recorded_ranks[0].ends_ns.size(), GetParam().works);
  std::set<std::string> losses;
  for (const ExecutionGraph::Loss& loss : import->graph.losses)
    losses.insert(loss.name);
  EXPECT_EQ(losses, GetParam().losses);
}

INSTANTIATE_TEST_SUITE_P(
    Recordings, SingleRankTest,
    ::testing::Values(
        SingleRank{"single_rank/hta",
                   "a100_alexnet",
                   98,
                   {"event_waits_inferred", "event_waits_unknown",
                    "launches_without_work", "synchronisations_inferred"}},
        SingleRank{"single_rank/hta", "a100_event_sync_multi", 6, {}},
        SingleRank{"single_rank/hta", "a100_event_sync_single", 5, {}},
        SingleRank{"single_rank/hta",
                   "a100_world2",
                   3774,
                   {"calls_of_helper_threads", "collectives_with_absent_members",
                    "event_waits_inferred", "event_waits_unknown",
                    "launches_without_work", "synchronisations_inferred"}},
        SingleRank{"single_rank/hta",
                   "v100_world1",
                   6095,
                   {"calls_of_helper_threads", "event_waits_unknown",
                    "full_launch_queues_inferred", "launches_without_work"}},
        SingleRank{"single_rank/hta",
                   "v100_world2",
                   15632,
                   {"calls_of_helper_threads", "collectives_of_unknown_members",
                    "communication_unknown", "event_waits_inferred",
                    "synchronisations_inferred", "work_before_its_inputs",
                    "work_without_launch"}},
        SingleRank{
            "single_rank/param", "linear_kineto", 10356, {"synchronisations_inferred"}},
        SingleRank{"single_rank/param",
                   "resnet_kineto",
                   10113,
                   {"launches_without_work", "synchronisations_inferred"}},
        SingleRank{"single_rank/tracelens",
                   "mi300x",
                   3653,
                   {"collectives_with_absent_members", "communication_unknown",
                    "event_waits_inferred", "event_waits_unknown",
                    "host_spans_not_nested", "work_without_launch"}}),
    [](const auto& info) { return std::string(info.param.prefix); });

}  // namespace
}  // namespace vrank::graph
