// A graph is played on the cluster that it was traced on, unless a flag says otherwise.

#include "tools/replay/graph_cluster.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/job/program_fingerprint.h"

namespace vrank::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kName[] = "hgx-h100-ib400";

class GraphClusterTest : public testing::Test {
 protected:
  void SetUp() override {
    installation_ = *FindInstallation();
    graph_.cluster = kName;
    graph_.cost_options = "launch=9000 ranks_per_node=4";
  }

  absl::StatusOr<GraphCluster> Choose(const std::string& flag) const {
    return ClusterOf(graph_, installation_, flag);
  }

  Installation installation_;
  graph::ExecutionGraph graph_;
};

TEST_F(GraphClusterTest, KeepsItsRanksPerNode) {
  const auto own = Choose("");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(graph::RanksPerNode(own->description), 4);
  EXPECT_EQ(own->text, "hgx-h100-ib400, 4 ranks per node");
  graph_.cost_options = "launch=9000";
  EXPECT_EQ(graph::RanksPerNode(Choose("")->description), 8);
  EXPECT_EQ(Choose("")->text, kName);
}

TEST_F(GraphClusterTest, SaysBothWhereAFlagGivesAnother) {
  const auto other = Choose("hgx-b200-ib400");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(graph::RanksPerNode(other->description), 4);
  EXPECT_EQ(other->text,
            "hgx-b200-ib400, 4 ranks per node (the graph has: hgx-h100-ib400, 4 ranks "
            "per node)");
  EXPECT_THAT(Choose("nowhere").status().ToString(), HasSubstr("--cluster: cluster"));
}

TEST_F(GraphClusterTest, RefusesAFileThatHasChanged) {
  graph_.cluster = testing::TempDir() + "cluster.textproto";
  std::filesystem::copy_file(
      installation_.data_dir + "/clusters/" + kName + ".textproto", graph_.cluster,
      std::filesystem::copy_options::overwrite_existing);
  graph_.cost_options = "cluster:" + *FileFingerprint(graph_.cluster);
  EXPECT_TRUE(Choose("").ok()) << Choose("").status();
  std::ofstream(graph_.cluster, std::ios::app) << "# another\n";
  EXPECT_THAT(Choose("").status().ToString(),
              AllOf(HasSubstr("it is another one now"), HasSubstr("give --cluster")));
  EXPECT_TRUE(Choose(kName).ok());
  std::filesystem::remove(graph_.cluster);
  EXPECT_THAT(Choose("").status().ToString(), HasSubstr("put that file back"));
}

TEST_F(GraphClusterTest, DamagedRanksPerNodeAreAnError) {
  for (const char* number : {"0", "x", "-1", "4x", "100000", ""}) {
    graph_.cost_options = std::string("ranks_per_node=") + number;
    EXPECT_FALSE(Choose("").ok()) << number;
  }
}

}  // namespace
}  // namespace vrank::tools
