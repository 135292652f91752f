// What work of a stream waits for, where the recording does not say all.

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/import/kineto_import.h"
#include "tests/graph/import/hand_profile.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/replayed_graph.h"

namespace vrank::graph {
namespace {

using testing::Contains;
using testing::Field;
using testing::Not;

int64_t EndOf(const std::string& name, const ExecutionGraph& graph) {
  const auto replayed = ReplayImported(graph);
  EXPECT_TRUE(replayed.ok()) << replayed.status();
  const ReplayedRank& rank = replayed->at(0);
  const auto found = std::find(rank.names.begin(), rank.names.end(), name);
  EXPECT_NE(found, rank.names.end()) << name;
  return rank.ends_ns.at(static_cast<size_t>(found - rank.names.begin()));
}

// A kernel that was launched before the recording began runs while the host tells its
// stream to wait for another one: that wait is for what is launched next.
TEST(ImportedWaitsTest, WorkWithoutALaunchDoesNotTakeALaterOnesWait) {
  HandProfile profile;
  profile.Step(0, 1000, 4300);
  profile.KernelWithoutLaunch("all_reduce_of_before", 1500, 3000, 20);
  profile.Kernel("gemm", 1100, 1110, 4000, 7);
  profile.Call("cudaEventRecord", 1120, 1);
  profile.Call("cudaStreamWaitEvent", 1122, 1);
  profile.Kernel("copy", 1130, 5115, 100, 20);
  profile.Call("cudaDeviceSynchronize", 1200, 4020);
  const ProfileFiles files;
  const auto import = ImportKineto({{files.Write("0.json", profile.Text())}, {}});
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_THAT(
      import->graph.losses,
      Not(Contains(Field(&ExecutionGraph::Loss::name, "work_before_its_inputs"))));
  // From the beginning of the recording, 1000 us.
  EXPECT_EQ(EndOf("all_reduce_of_before", import->graph), 3'500'000);
  EXPECT_EQ(EndOf("gemm", import->graph), 4'110'000);
  EXPECT_EQ(EndOf("copy", import->graph), 4'215'000);
}

// FSDP2 makes a stream wait for earlier work of another stream, and launches more work
// on the latter before it launches any on the former.
TEST(ImportedWaitsTest, AWaitIsForWhatBeginsAtAnEndAndNothingElseExplains) {
  HandProfile profile;
  profile.Step(0, 1000, 4300);
  profile.Kernel("first", 1100, 1110, 1000, 7);
  profile.Call("cudaEventRecord", 1120, 1);
  profile.Kernel("second", 1130, 2111, 2000, 7);
  profile.Call("cudaStreamWaitEvent", 1140, 1);
  profile.Kernel("third", 1150, 4112, 100, 7);
  profile.Kernel("copy", 1160, 2112, 50, 20);
  profile.Call("cudaDeviceSynchronize", 1200, 3020);
  const ProfileFiles files;
  auto import = ImportKineto({{files.Write("0.json", profile.Text())}, {}});
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_THAT(import->graph.losses,
              Not(Contains(Field(&ExecutionGraph::Loss::name, "event_waits_unknown"))));
  const int64_t before = EndOf("copy", import->graph);
  EXPECT_EQ(before, 1'162'000);
  Lengthen(0, 0, 10'000'000, &import->graph);
  EXPECT_EQ(EndOf("copy", import->graph), before + 10'000'000);
}

}  // namespace
}  // namespace vrank::graph
