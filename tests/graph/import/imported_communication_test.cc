// Kernels that communicate are communication, whatever else of them is known.

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "graph/import/kineto_import.h"
#include "tests/graph/import/hand_profile.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/replayed_graph.h"

namespace vrank::graph {
namespace {

constexpr char kGeneric[] = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)";

// Of the last iteration of rank 0 of 8, which alone was recorded.
ReplayedParts BreakdownOf(const HandProfile& profile) {
  const ProfileFiles files;
  auto import = ImportKineto({{files.Write("0.json", profile.Text())}, {}});
  EXPECT_TRUE(import.ok()) << import.status();
  if (!import.ok())
    return {};
  const auto replayed = ReplayImported(import->graph);
  EXPECT_TRUE(replayed.ok()) << replayed.status();
  return replayed.ok() ? replayed->at(0).parts : ReplayedParts();
}

using Parts = std::map<std::string, int64_t>;

// 1 ms of computation beside 3 ms of communication, which begins 20 us later: 2.02 ms
// of it are exposed.
HandProfile OneOverlapped(const std::string& kernel, const std::string& args) {
  HandProfile profile(0, 8);
  profile.Step(0, 1000, 100);
  profile.Kernel("gemm", 1000, 1010, 1000);
  profile.Kernel(kernel, 1020, 1030, 3000, 20, args);
  return profile;
}

TEST(ImportedCommunicationTest, IsKnownByNameWhereMembersAreAbsent) {
  const ReplayedParts parts = BreakdownOf(OneOverlapped(
      kGeneric, R"("Collective name": "allreduce", "In msg nelems": 1024, )"
                R"("Out msg nelems": 1024, "Group size": 8, "dtype": "Float", )"
                R"("Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]")"));
  EXPECT_EQ(parts.compute_ns, 1'000'000);
  EXPECT_EQ(parts.exposed_ns, (Parts{{"all_reduce", 2'020'000}}));
  EXPECT_EQ(parts.overlapped_ns, (Parts{{"all_reduce", 980'000}}));
}

TEST(ImportedCommunicationTest, IsKnownByNameWhereNothingElseIs) {
  EXPECT_EQ(BreakdownOf(OneOverlapped(kGeneric, "")).exposed_ns,
            (Parts{{"communication", 2'020'000}}));
  EXPECT_EQ(BreakdownOf(
                OneOverlapped("void vllm::cross_device_reduce_2stage<float, 8>()", ""))
                .exposed_ns,
            (Parts{{"all_reduce", 2'020'000}}));
  EXPECT_EQ(
      BreakdownOf(OneOverlapped("deep_ep::internode::combine<2>(int)", "")).exposed_ns,
      (Parts{{"all_to_all", 2'020'000}}));
}

TEST(ImportedCommunicationTest, SendsAndReceivesAreCommunication) {
  for (const auto& [name, operation] : Parts{{"send", 0}, {"recv", 1}}) {
    const ReplayedParts parts = BreakdownOf(OneOverlapped(
        "ncclDevKernel_SendRecv(x)", R"("Collective name": ")" + name + R"(")"));
    EXPECT_EQ(parts.exposed_ns,
              (Parts{{operation == 0 ? "send" : "receive", 2'020'000}}));
  }
}

// A start that nothing explains is not the host's time.
TEST(ImportedCommunicationTest, AGapOfUnknownCauseIsUnexplained) {
  HandProfile profile;
  profile.Step(0, 1000, 100);
  profile.Kernel("gemm", 1000, 1010, 1000);
  profile.Kernel("gemm", 1020, 5010, 1000);
  const ReplayedParts parts = BreakdownOf(profile);
  EXPECT_EQ(parts.compute_ns, 2'000'000);
  EXPECT_EQ(parts.unexplained_ns, 3'000'000);
  EXPECT_EQ(parts.host_bound_ns, 10'000);
}

}  // namespace
}  // namespace vrank::graph
