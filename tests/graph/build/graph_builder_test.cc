// Slices that fit together, and each way in which they do not.

#include "graph/build/graph_builder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/build/rank_plan.h"
#include "tests/graph/build/slice_maker.h"

namespace vrank::graph {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A rank of tp=2,dp=2,pp=2: a world, a tensor group by rank / 2, and an all-reduce.
RankTrace Megatron(int32_t rank, const std::string& layout, uint64_t count = 64) {
  SliceMaker slice(rank, 8, layout);
  const uint32_t world = slice.Init(8, static_cast<uint32_t>(rank));
  const uint32_t tensor =
      slice.Split(world, rank / 2, rank, 2, static_cast<uint32_t>(rank % 2));
  slice.AllReduce(tensor, 32);
  slice.AllReduce(world, count);
  slice.Synchronize();
  return slice.trace;
}

std::string ErrorOf(const std::vector<RankTrace>& slices,
                    const GraphBuildOptions& options = {}) {
  const absl::StatusOr<ExecutionGraph> graph = BuildGraph(slices, options);
  return graph.ok() ? "" : std::string(graph.status().message());
}

constexpr char kLayout[] = "tp=2,dp=2,pp=2";

TEST(GraphBuilderTest, LetsRanksFollowTheTracedOneOfTheirClass) {
  const std::vector<RankTrace> slices = {Megatron(6, kLayout), Megatron(1, kLayout)};
  const absl::StatusOr<ExecutionGraph> graph = BuildGraph(slices);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->classes.size(), 2u);
  EXPECT_EQ(graph->classes[0].name, "pp 0");
  EXPECT_THAT(graph->classes[0].ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(graph->programs.size(), 2u);
  EXPECT_EQ(graph->ranks[0].leader, 1);
  EXPECT_EQ(graph->ranks[1].leader, 1);
  EXPECT_EQ(graph->ranks[7].leader, 6);
  EXPECT_EQ(graph->ranks[7].program, 1u);
  // The world, and four tensor groups.
  ASSERT_EQ(graph->communicators.size(), 5u);
  EXPECT_FALSE(graph->layout_inferred);
  EXPECT_TRUE(graph->losses.empty());
}

// Long programs are played folded: what they make and whether they fit is the same.
TEST(GraphBuilderTest, PlaysLongSlicesAsShortOnes) {
  const auto slices = [](int times, uint64_t count) {
    std::vector<RankTrace> made;
    for (const int32_t rank : {6, 1}) {
      SliceMaker slice(rank, 8, kLayout);
      const uint32_t world = slice.Init(8, static_cast<uint32_t>(rank));
      const uint32_t tensor =
          slice.Split(world, rank / 2, rank, 2, static_cast<uint32_t>(rank % 2));
      for (int i = 0; i < times; ++i)
        slice.AllReduce(tensor, 32);
      slice.AllReduce(world, rank == 6 ? count : 64);
      slice.Synchronize();
      made.push_back(slice.trace);
    }
    return made;
  };
  const absl::StatusOr<ExecutionGraph> few = BuildGraph(slices(1, 64));
  const absl::StatusOr<ExecutionGraph> many = BuildGraph(slices(1200, 64));
  ASSERT_TRUE(few.ok() && many.ok()) << few.status() << many.status();
  ASSERT_EQ(many->communicators.size(), few->communicators.size());
  for (size_t i = 0; i < few->communicators.size(); ++i) {
    EXPECT_EQ(many->communicators[i].identity, few->communicators[i].identity);
    EXPECT_EQ(many->communicators[i].name, few->communicators[i].name);
    EXPECT_EQ(many->communicators[i].members, few->communicators[i].members);
  }
  EXPECT_THAT(ErrorOf(slices(1200, 65)),
              AllOf(HasSubstr("communicator 'world': collective #0 differs"),
                    HasSubstr("all_reduce(65 float32, sum)")));
}

TEST(GraphBuilderTest, InfersTheOneLayoutThatExplainsAll) {
  // Without pipeline stages: tp=2 and dp=4, told apart by colours of all kinds.
  std::vector<RankTrace> slices;
  for (const int32_t rank : {3, 4}) {
    SliceMaker slice(rank, 8);
    const uint32_t world = slice.Init(8, static_cast<uint32_t>(rank));
    slice.Split(world, rank / 2, rank, 2, static_cast<uint32_t>(rank % 2));
    slice.Split(world, rank % 2, rank, 4, static_cast<uint32_t>(rank / 2));
    slices.push_back(slice.trace);
  }
  const absl::StatusOr<ExecutionGraph> graph = BuildGraph(slices);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(graph->layout_inferred);
  EXPECT_EQ(graph->layout, "tp=2,dp=4,order=tp-dp");
}

TEST(GraphBuilderTest, SaysWhichRankDecidesBetweenTwoLayouts) {
  // The second of a group of two: with its neighbour, or with the rank four below.
  SliceMaker slice(5, 8);
  slice.Init(8, 5, 1);
  slice.Init(2, 1, 2);
  EXPECT_THAT(ErrorOf({slice.trace}),
              AllOf(HasSubstr("both explain all slices"), HasSubstr("tp=2,dp=4"),
                    HasSubstr("tp=4,dp=2"), HasSubstr("trace rank 0, too")));
}

TEST(GraphBuilderTest, SaysWhichRankWouldTellTheLayout) {
  // Rank 0 passes zeros, whatever the groups are.
  SliceMaker slice(0, 8);
  const uint32_t world = slice.Init(8, 0);
  slice.Split(world, 0, 0, 2, 0);
  EXPECT_THAT(ErrorOf({slice.trace}), AllOf(HasSubstr("do not tell the layout"),
                                            HasSubstr("trace rank 1 (dp 1), too")));
}

TEST(GraphBuilderTest, RefusesALayoutThatContradictsWhatASliceWasTold) {
  SliceMaker slice(1, 8);
  slice.Init(2, 1);
  EXPECT_THAT(ErrorOf({slice.trace}, {"tp=4,dp=2", {}}),
              AllOf(HasSubstr("correct --layout"), HasSubstr("tp=4,dp=2")));
  SliceMaker told(0, 8);
  told.Split(told.Init(8, 0), protocol::kNoColor, 0, 2, 0);
  EXPECT_THAT(
      ErrorOf({told.trace}, {"dp=8", {}}),
      HasSubstr("communicator 2 of rank 0 ('rank000000.vtrace'): the slice was told "
                "that it is index 0 of 2, the layout dp=8,order=dp makes it no member; "
                "correct --layout"));
}

TEST(GraphBuilderTest, RefusesALayoutOtherThanWhatTheSlicesState) {
  SliceMaker slice(0, 8);
  slice.Init(8, 0);
  slice.trace.session.layout = "tp=2,dp=4";
  slice.trace.session.group_hints = {"world:0=dp"};
  EXPECT_THAT(ErrorOf({slice.trace}, {"tp=8", {}}),
              HasSubstr("--layout 'tp=8' contradicts the layout that the slices state, "
                        "'tp=2,dp=4'"));
  slice.trace.session.layout.clear();
  EXPECT_THAT(ErrorOf({slice.trace}, {"tp=8", {}}),
              HasSubstr("--layout 'tp=8' contradicts the group world:0=dp that the "
                        "slices state"));
}

TEST(GraphBuilderTest, NamesARankOfAClassWithoutASlice) {
  EXPECT_THAT(ErrorOf({Megatron(1, kLayout)}),
              AllOf(HasSubstr("no slice shows what the ranks of pp 1 do (4-7)"),
                    HasSubstr("trace one of them, for example rank")));
}

TEST(GraphBuilderTest, RefusesSlicesOfDifferentJobs) {
  const RankTrace one = Megatron(1, kLayout);
  auto error_with = [&](auto change) {
    RankTrace other = Megatron(6, kLayout);
    change(other.session);
    return ErrorOf({one, other});
  };
  EXPECT_EQ(error_with([](TraceSession& s) { s.world_size = 16; }),
            "slices 'rank000001.vtrace' (rank 1) and 'rank000006.vtrace' (rank 6) "
            "differ in world size: 8 and 16; trace all of them with the same options");
  EXPECT_THAT(error_with([](TraceSession& s) { s.layout = "tp=8"; }),
              HasSubstr("differ in layout: 'tp=2,dp=2,pp=2' and 'tp=8'"));
  EXPECT_THAT(error_with([](TraceSession& s) { s.gpu = "a100"; }),
              HasSubstr("differ in GPU: 'h100' and 'a100'"));
  EXPECT_THAT(error_with([](TraceSession& s) { s.virtual_gpu = false; }),
              HasSubstr("differ in kind of GPU: virtual and real"));
  EXPECT_THAT(error_with([](TraceSession& s) { s.cost_options = "launch=9000"; }),
              AllOf(HasSubstr("differ in costs"), HasSubstr("none and 'launch=9000'")));
  EXPECT_THAT(error_with([](TraceSession& s) { s.group_hints = {"world:0=dp"}; }),
              AllOf(HasSubstr("'rank000001.vtrace'"), HasSubstr("'rank000006.vtrace'"),
                    HasSubstr("what communicators group (--group, or learned), number "
                              "1: none and 'world:0=dp'")));
  EXPECT_THAT(error_with([](TraceSession& s) { s.world_size = 0; }),
              HasSubstr("it does not say which rank it is of"));
  EXPECT_THAT(error_with([](TraceSession& s) { s.command = "other"; }),
              HasSubstr("differ in command: 'trainer' and 'other'"));
  EXPECT_THAT(error_with([](TraceSession& s) { s.program_fingerprint = "beef"; }),
              AllOf(HasSubstr("differ in code version"), HasSubstr("'f00d' and 'beef'"),
                    HasSubstr("one build of the program")));
  EXPECT_EQ(error_with([](TraceSession& s) { s.rank = 1; }),
            "rank 1 was traced twice: 'rank000001.vtrace' and 'rank000006.vtrace'; "
            "remove one of them");
  EXPECT_THAT(error_with([](TraceSession& s) { s.rank = 8; }),
              HasSubstr("rank 8 of 8 ranks does not exist"));
  EXPECT_THAT(ErrorOf({}), HasSubstr("there are no slices"));
}

TEST(GraphBuilderTest, RefusesCollectivesThatDiffer) {
  EXPECT_EQ(
      ErrorOf({Megatron(1, kLayout, 64), Megatron(6, kLayout, 65)}),
      "communicator 'world': collective #0 differs between members: rank 2 (as rank "
      "1, which it follows) calls all_reduce(64 float32, sum), rank 6 calls "
      "all_reduce(65 float32, sum); all members must make the same calls in the "
      "same order, and ranks that --layout puts into one stage must run one "
      "program");
}

// Two ranks of two classes; `first` and `second` get the number of the world.
template <typename First, typename Second>
std::string ErrorOfPair(const First& first, const Second& second) {
  SliceMaker a(0, 2, "pp=2"), b(1, 2, "pp=2");
  first(&a, a.Init(2, 0));
  second(&b, b.Init(2, 1));
  return ErrorOf({a.trace, b.trace});
}

TEST(GraphBuilderTest, RefusesACollectiveThatNotAllJoin) {
  EXPECT_EQ(
      ErrorOfPair(
          [](SliceMaker* joins, uint32_t world) {
            joins->AllReduce(world, 8);
            joins->Synchronize();
          },
          [](SliceMaker*, uint32_t) {}),
      "the slices do not fit together, the job comes to a halt: rank 0: host waits "
      "for lane 1: all_reduce #0 of communicator 'world' (8 x float32); 1 of 2 "
      "members have not arrived: rank 1 (its program has ended)");
}

TEST(GraphBuilderTest, RefusesASendThatNobodyReceives) {
  EXPECT_EQ(
      ErrorOfPair(
          [](SliceMaker* sender, uint32_t world) {
            sender->Transfers(world, {{512, 1, 1}});
            sender->Synchronize();
          },
          [](SliceMaker*, uint32_t) {}),
      "the slices do not fit together: communicator 'world': send #0 from rank 0 "
      "(index 0) to rank 1 (index 1), 512 bytes, has no receive: rank 0 sends once, "
      "rank 1 receives from it 0 times, and its program has ended after 1 ops; post "
      "the receive, or leave the send out");
}

// A send is a halt only where it has to wait for its receiver.
TEST(GraphBuilderTest, TakesSendsThatGoBeforeTheirReceives) {
  auto play = [](SliceMaker* slice, uint32_t world) {
    const uint32_t peer = slice->trace.session.rank == 0 ? 1 : 0;
    slice->Transfers(world, {{512, peer, 1}});
    slice->Transfers(world, {{512, peer, 0}});
    slice->Synchronize();
  };
  EXPECT_EQ(ErrorOfPair(play, play), "");
}

// Nobody's host waits for them, and they are found all the same.
TEST(GraphBuilderTest, RefusesOperationsThatNobodyWaitsFor) {
  auto nothing = [](SliceMaker*, uint32_t) {};
  EXPECT_THAT(ErrorOfPair(
                  [](SliceMaker* sender, uint32_t world) {
                    sender->Transfers(world, {{512, 1, 1}});
                  },
                  nothing),
              HasSubstr("send #0 from rank 0 (index 0) to rank 1 (index 1), 512 bytes, "
                        "has no receive"));
  EXPECT_THAT(ErrorOfPair(nothing, [](SliceMaker* joins,
                                      uint32_t world) { joins->AllReduce(world, 8); }),
              HasSubstr("1 of 2 members have not arrived: rank 0"));
}

TEST(GraphBuilderTest, RefusesASendAndAReceiveOfDifferentSizes) {
  EXPECT_EQ(
      ErrorOfPair(
          [](SliceMaker* sender, uint32_t world) {
            sender->Transfers(world, {{512, 1, 1}});
          },
          [](SliceMaker* receiver, uint32_t world) {
            receiver->Transfers(world, {{256, 0, 0}});
          }),
      "communicator 'world': transfer #0 from rank 0 (index 0) to rank 1 (index 1) "
      "differs: 512 bytes are sent, 256 bytes received");
}

TEST(GraphBuilderTest, RefusesACycle) {
  // Each waits for its own first before it gets to what the other one waits for.
  auto play = [](bool left_first) {
    return [left_first](SliceMaker* slice, uint32_t world) {
      const uint32_t index = slice->trace.session.rank == 0 ? 0 : 1;
      const uint32_t left = slice->Split(world, 0, 0, 2, index);
      const uint32_t right = slice->Split(world, 0, 0, 2, index);
      slice->AllReduce(left_first ? left : right, 8);
      slice->Synchronize();
      slice->AllReduce(left_first ? right : left, 16);
      slice->Synchronize();
    };
  };
  EXPECT_EQ(ErrorOfPair(play(true), play(true)), "");
  EXPECT_EQ(
      ErrorOfPair(play(true), play(false)),
      "the slices do not fit together, the job comes to a halt: in a circle: rank 0 "
      "waits for rank 1 (all_reduce #0 of communicator 'world/0.0'), rank 1 for rank "
      "0 (all_reduce #0 of communicator 'world/1.0'); rank 0: host waits "
      "for lane 1: all_reduce #0 of communicator 'world/0.0' (8 x float32); 1 of "
      "2 members have not arrived: rank 1; rank 1: host waits for lane 1: "
      "all_reduce #0 of communicator 'world/1.0' (8 x float32); 1 of 2 members "
      "have not arrived: rank 0");
}

// A ring in which rank 0 states its receive first, and rank 1 its send.
absl::StatusOr<ExecutionGraph> BuildRing(int32_t ranks) {
  std::vector<RankTrace> slices;
  for (const int32_t rank : {0, 1}) {
    SliceMaker slice(rank, ranks, fmt::format("dp={}", ranks));
    const uint32_t world =
        slice.Init(static_cast<uint32_t>(ranks), static_cast<uint32_t>(rank));
    const auto next = static_cast<uint32_t>((rank + 1) % ranks),
               previous = static_cast<uint32_t>((rank + ranks - 1) % ranks);
    if (rank == 0)
      slice.Transfers(world, {{8, previous, 0}, {8, next, 1}});
    else
      slice.Transfers(world, {{8, next, 1}, {8, previous, 0}});
    slices.push_back(slice.trace);
  }
  return BuildGraph(slices);
}

TEST(GraphBuilderTest, SaysWhereTwoRanksOfAClassDiffer) {
  const absl::StatusOr<ExecutionGraph> graph = BuildRing(4);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->losses.size(), 1u);
  EXPECT_EQ(graph->losses[0].name, "class_members_differ");
  EXPECT_EQ(graph->losses[0].subject, "ranks 0 and 1");
  EXPECT_THAT(graph->losses[0].meaning, HasSubstr("op 1: 2 transfers"));
}

TEST(GraphBuilderTest, RanksThatNobodyFollowsMayDiffer) {
  const absl::StatusOr<ExecutionGraph> graph = BuildRing(2);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(graph->losses.empty());
}

TEST(RankPlanTest, TakesOneRankPerClassAndSaysWhy) {
  const Layout layout = *Layout::Parse("tp=8,pp=16,dp=8", 1024);
  const RankPlan plan = PlanRanks(layout);
  ASSERT_EQ(plan.entries.size(), 16u);
  EXPECT_EQ(plan.ambiguity, 0);
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    EXPECT_EQ(layout.ClassOf(plan.entries[i].rank), plan.entries[i].rank_class);
    EXPECT_EQ(plan.entries[i].class_size, 64);
    EXPECT_FALSE(plan.entries[i].deciding);
  }
  EXPECT_EQ(plan.entries[3].reason, "its class of 64 ranks (pp 3) follows it");
}

TEST(RankPlanTest, AddsRanksThatDecideWhereOneClassCannotTell) {
  const RankPlan plan = PlanRanks(*Layout::Parse("tp=4,dp=4", 16));
  ASSERT_GT(plan.entries.size(), 1u);
  EXPECT_FALSE(plan.entries[0].deciding);
  EXPECT_TRUE(plan.entries[1].deciding);
}

TEST(RankPlanTest, TracesRankZeroToo) {
  const RankPlan plan = PlanSlices(*Layout::Parse("tp=8,pp=16,dp=8", 1024));
  ASSERT_EQ(plan.entries.size(), 17u);
  EXPECT_EQ(plan.entries[0].rank, 0);
  EXPECT_TRUE(plan.entries[0].deciding);
  EXPECT_EQ(plan.entries[0].class_name, "pp 0");
  // Where it is planned anyway, it stands there once.
  EXPECT_EQ(PlanSlices(*Layout::Parse("dp=1", 1)).entries.size(), 1u);
}

}  // namespace
}  // namespace vrank::graph
