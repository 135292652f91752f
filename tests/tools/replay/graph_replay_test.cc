// --iteration-range of commands that play a graph: what matches nothing is refused.

#include "tools/replay/graph_replay.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

using graph::Op;
using graph::OpKind;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// One rank per list of ranges.
graph::ExecutionGraph WithRanges(const std::vector<std::vector<std::string>>& ranks) {
  graph::ExecutionGraph graph;
  for (const std::vector<std::string>& ranges : ranks) {
    auto program = std::make_unique<graph::Program>(true);
    program->AddName("no range, but the name of a kernel");
    for (const std::string& range : ranges) {
      const uint32_t name = program->AddName(range);
      program->Append(Op{.kind = OpKind::kRangeBegin, .a = name});
      program->Append(Op{.kind = OpKind::kRangeEnd, .a = name});
    }
    program->Close();
    graph.programs.push_back(std::move(program));
  }
  return graph;
}

TEST(IterationPatternTest, AsksForTheUsualNamesWhereNoneIsGiven) {
  const auto usual = IterationPattern(WithRanges({{"forward"}}), std::nullopt);
  ASSERT_TRUE(usual.ok()) << usual.status();
  EXPECT_TRUE(usual->Matches("step 12"));
}

TEST(IterationPatternTest, TakesARangeOfAnyRank) {
  const auto graph = WithRanges({{"load"}, {"load", "Epoch 1"}});
  EXPECT_TRUE(IterationPattern(graph, "epoch.*").ok());
  EXPECT_FALSE(IterationPattern(graph, "(").ok());
}

TEST(IterationPatternTest, ListsTheRangesWhereNoneMatchesAsAWhole) {
  const auto graph = WithRanges({{"load"}, {"epoch 1"}});
  const auto none = IterationPattern(graph, "epoch");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(
      std::string(none.status().message()),
      AllOf(HasSubstr("--iteration-range 'epoch'"), HasSubstr("'epoch 1', 'load'"),
            Not(HasSubstr("kernel")), Not(HasSubstr("more"))));
  const auto without = IterationPattern(WithRanges({{}}), "epoch");
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(std::string(without.status().message()), HasSubstr("no NVTX ranges"));
}

TEST(IterationPatternTest, ListsAFewOfManyRanges) {
  std::vector<std::string> ranges;
  for (int i = 0; i < 100; ++i)
    ranges.push_back("epoch " + std::to_string(i));
  const auto none = IterationPattern(WithRanges({ranges}), "step");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("and 88 more"));
}

}  // namespace
}  // namespace vrank::tools
