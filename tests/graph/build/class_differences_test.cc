#include "graph/build/class_differences.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Step {
  std::string kernel;  // empty: an all-reduce
  int64_t value = 0;   // its time; of an all-reduce, the count
};

std::unique_ptr<Program> ProgramOf(const std::vector<Step>& steps, int64_t host_ns) {
  auto program = std::make_unique<Program>(/*retain=*/true);
  for (const Step& step : steps) {
    Op op{.host_ns = host_ns};
    if (step.kernel.empty()) {
      CollectiveCall call;
      call.count = static_cast<uint64_t>(step.value);
      op.kind = OpKind::kCollective;
      op.a = 1;
      op.b = program->AddCollective(call);
    } else {
      op.kind = OpKind::kWork;
      op.value = step.value;
      op.a = program->AddName(step.kernel);
    }
    program->Append(op);
  }
  program->Close();
  return program;
}

// One class whose every rank was traced.
ExecutionGraph GraphOf(const std::vector<std::vector<Step>>& ranks, bool virtual_gpu) {
  ExecutionGraph graph;
  graph.world_size = static_cast<int32_t>(ranks.size());
  graph.virtual_gpu = virtual_gpu;
  graph.classes.push_back({"all", {}});
  for (int32_t rank = 0; rank < graph.world_size; ++rank) {
    graph.programs.push_back(ProgramOf(ranks[static_cast<size_t>(rank)], rank));
    graph.ranks.push_back({0, static_cast<uint32_t>(rank), rank});
    graph.classes[0].ranks.push_back(rank);
  }
  return graph;
}

const std::vector<Step> kShort = {{"embed", 5}, {"gemm", 10}, {"", 64}};

TEST(ClassDifferencesTest, RanksThatDoTheSameDoNotDiffer) {
  EXPECT_THAT(DifferencesWithinClasses(GraphOf({kShort, kShort, kShort}, true)),
              IsEmpty());
}

TEST(ClassDifferencesTest, NamesTheRanksAndTheFirstOp) {
  const std::vector<Step> long_one = {{"embed", 5}, {"gemm", 80}, {"", 64}};
  const auto differences =
      DifferencesWithinClasses(GraphOf({kShort, long_one, kShort, long_one}, true));
  ASSERT_EQ(differences.size(), 1u);
  const ClassDifference& one = differences[0];
  EXPECT_EQ(one.class_name, "all");
  EXPECT_THAT(one.ranks, ElementsAre(1, 3));
  EXPECT_EQ(one.reference, 0);
  EXPECT_EQ(one.of_ranks.op, 1u);
  EXPECT_THAT(one.of_ranks.what, HasSubstr("gemm of 80 ns"));
  EXPECT_EQ(one.of_ranks.work_ns, 85);
  EXPECT_THAT(one.of_reference.what, HasSubstr("gemm of 10 ns"));
  EXPECT_EQ(one.of_reference.work_ns, 15);
}

TEST(ClassDifferencesTest, MeasuredTimesMayDiffer) {
  const std::vector<Step> slower = {{"embed", 6}, {"gemm", 11}, {"", 64}};
  EXPECT_THAT(DifferencesWithinClasses(GraphOf({kShort, slower}, false)), IsEmpty());
  const std::vector<Step> other = {{"embed", 6}, {"gemv", 11}, {"", 64}};
  EXPECT_EQ(DifferencesWithinClasses(GraphOf({kShort, other}, false)).size(), 1u);
}

TEST(ClassDifferencesTest, AProgramMayEndFirst) {
  const std::vector<Step> fewer = {{"embed", 5}};
  const auto differences = DifferencesWithinClasses(GraphOf({kShort, fewer}, true));
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].of_ranks.what, "the end");
  EXPECT_EQ(differences[0].of_ranks.op, 1u);
  EXPECT_THAT(differences[0].of_reference.what, HasSubstr("gemm"));
}

TEST(ClassDifferencesTest, AnotherCollectiveIsADifference) {
  const std::vector<Step> larger = {{"embed", 5}, {"gemm", 10}, {"", 128}};
  const auto differences = DifferencesWithinClasses(GraphOf({kShort, larger}, true));
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_THAT(differences[0].of_ranks.what, HasSubstr("of 128"));
}

}  // namespace
}  // namespace vrank::graph
