// Which ranks follow a real one beside a graph, and which play their own trace.

#include "tools/replay/graph_cast.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

using emulator::VirtualRank;
using graph::Op;
using graph::OpKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Part = VirtualRank::Part;

// One step of a data-parallel rank; `reads`: it waits for its GPU, as rank 0 does for
// the loss that it prints. `next`: it sends to this place of its communicator.
std::unique_ptr<graph::Program> Step(uint32_t place, bool reads,
                                     int64_t kernel_ns = 500, uint32_t next = 0) {
  auto program = std::make_unique<graph::Program>(true);
  graph::Creation world;
  world.ranks = 4;
  world.rank = place;
  world.unique_id[0] = static_cast<uint8_t>(place + 1);  // slices have ids of their own
  program->Append(Op{
      .kind = OpKind::kCreateCommunicator, .a = 1, .b = program->AddCreation(world)});
  program->Append(Op{.kind = OpKind::kWork,
                     .work = graph::WorkClass::kKernel,
                     .lane = 1,
                     .host_ns = 100,
                     .value = kernel_ns,
                     .a = program->AddName("kernel")});
  program->Append(Op{.kind = OpKind::kCollective,
                     .lane = 1,
                     .host_ns = 100,
                     .a = 1,
                     .b = program->AddCollective({.count = 64})});
  if (next != 0)
    program->Append(Op{.kind = OpKind::kTransfers,
                       .lane = 1,
                       .a = 1,
                       .b = program->AddTransfers({{8, next, 1}})});
  if (reads)
    program->Append(Op{.kind = OpKind::kHostWaitLane, .lane = 1, .host_ns = 50});
  program->Close();
  return program;
}

// Ranks 0 and 1 of four were traced; 2 and 3 follow rank 1.
graph::ExecutionGraph Traced(std::unique_ptr<graph::Program> rank_0,
                             std::unique_ptr<graph::Program> rank_1) {
  graph::ExecutionGraph graph;
  graph.world_size = 4;
  graph.layout = "dp=4,order=dp";
  graph.virtual_gpu = true;
  graph.classes.push_back({"all", {0, 1, 2, 3}});
  graph.ranks = {{0, 0, 0}, {0, 1, 1}, {0, 1, 1}, {0, 1, 1}};
  graph.programs.push_back(std::move(rank_0));
  graph.programs.push_back(std::move(rank_1));
  return graph;
}

// "0 plays, 1 follows 2, 3 plays 1".
std::string Words(const std::vector<VirtualRank>& cast) {
  std::string text;
  for (const VirtualRank& one : cast) {
    text += (text.empty() ? "" : ", ") + std::to_string(one.rank) +
            (one.part == Part::kFollower ? " follows" : " plays");
    if (one.leader >= 0)
      text += " " + std::to_string(one.leader);
  }
  return text;
}

std::string CastOf(const graph::ExecutionGraph& graph, std::vector<int32_t> real,
                   bool same_program = true) {
  const auto cast = GraphCast::Make(graph);
  if (!cast.ok())
    return cast.status().ToString();
  return Words(cast->Cast(real, same_program));
}

TEST(GraphCastTest, ATracedRankThatDiffersPlaysItsOwnTrace) {
  const auto graph = Traced(Step(0, true), Step(1, false));
  EXPECT_EQ(CastOf(graph, {2}), "0 plays, 1 follows 2, 3 follows 2");
  EXPECT_EQ(CastOf(graph, {1}), "0 plays, 2 follows 1, 3 follows 1");
}

TEST(GraphCastTest, RanksDoNotFollowARealOneThatDiffers) {
  const auto graph = Traced(Step(0, true), Step(1, false));
  EXPECT_EQ(CastOf(graph, {0}), "1 plays, 2 plays 1, 3 plays 1");
  EXPECT_EQ(CastOf(graph, {0, 3}), "1 follows 3, 2 follows 3");
}

TEST(GraphCastTest, ARankThatDoesTheSameFollows) {
  EXPECT_EQ(CastOf(Traced(Step(0, false), Step(1, false)), {2}),
            "0 follows 2, 1 follows 2, 3 follows 2");
  EXPECT_EQ(CastOf(Traced(Step(0, false), Step(1, false)), {0}),
            "1 follows 0, 2 follows 0, 3 follows 0");
}

TEST(GraphCastTest, LengthsOfKernelsAreADifference) {
  EXPECT_EQ(CastOf(Traced(Step(0, false, 501), Step(1, false)), {2}),
            "0 plays, 1 follows 2, 3 follows 2");
  // On a real GPU no two measurements are equal.
  auto measured = Traced(Step(0, false, 501), Step(1, false));
  measured.virtual_gpu = false;
  EXPECT_EQ(CastOf(measured, {2}), "0 follows 2, 1 follows 2, 3 follows 2");
}

TEST(GraphCastTest, PeersCountFromTheOwnPlace) {
  EXPECT_EQ(CastOf(Traced(Step(0, false, 500, 1), Step(1, false, 500, 2)), {2}),
            "0 follows 2, 1 follows 2, 3 follows 2");
  EXPECT_EQ(CastOf(Traced(Step(0, false, 500, 1), Step(1, false, 500, 3)), {2}),
            "0 plays, 1 follows 2, 3 follows 2");
}

// No old program plays against a new one, and what that leaves out is said.
TEST(GraphCastTest, BesideAnotherProgramTheClassFollows) {
  const auto graph = Traced(Step(0, true), Step(1, false));
  EXPECT_EQ(CastOf(graph, {2}, /*same_program=*/false),
            "0 follows 2, 1 follows 2, 3 follows 2");
  const auto cast = GraphCast::Make(graph);
  ASSERT_TRUE(cast.ok()) << cast.status();
  const std::vector<int32_t> real = {2};
  const auto misfits = cast->Misfits(cast->Cast(real, false));
  ASSERT_EQ(misfits.size(), 1u);
  EXPECT_EQ(misfits[0].rank, 0);
  EXPECT_EQ(misfits[0].follows, 2);
  EXPECT_THAT(misfits[0].difference, HasSubstr("+1 waits of the host, +0.1 us of host "
                                               "time; op 3: host_wait_lane"));
  EXPECT_THAT(cast->Misfits(cast->Cast(real, true)), IsEmpty());
}

TEST(GraphCastTest, TellsWhatARankDidOtherwiseThanTheGraphHas) {
  const auto graph = Traced(Step(0, true), Step(1, false));
  const auto cast = GraphCast::Make(graph);
  ASSERT_TRUE(cast.ok()) << cast.status();
  const graph::Seats seats = {{1, {3, 4}}};
  EXPECT_EQ(cast->DifferenceOf(3, *Step(3, false), seats), "");
  EXPECT_THAT(cast->DifferenceOf(3, *Step(3, true), seats),
              HasSubstr("op 3: host_wait_lane"));
  EXPECT_EQ(cast->DifferenceOf(0, *Step(0, true), {{1, {0, 4}}}), "");
}

}  // namespace
}  // namespace vrank::tools
