// A scaled graph is the graph that slices of that size make.

#include "graph/scale/scale_graph.h"

#include <functional>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/build/graph_builder.h"
#include "graph/build/program_comparison.h"
#include "graph/membership/membership_inference.h"
#include "tests/graph/build/slice_maker.h"

namespace vrank::graph {
namespace {

using ::testing::HasSubstr;

constexpr CommunicatorMemory kMemory = {7 << 20, 3 << 20};

// What a rank of a program does that numbers its groups by the layout.
class Megatron {
 public:
  Megatron(const Layout& layout, int32_t rank)
      : layout_(layout),
        rank_(rank),
        slice_(rank, layout.world_size(), layout.ToString()) {
    world_ = slice_.Init(static_cast<uint32_t>(layout.world_size()),
                         static_cast<uint32_t>(rank));
    tensor_ = Split("tp");
    data_ = Split("dp");
    pipeline_ = Split("pp");
  }

  void Train() {
    // 1F1B of eleven micro-batches.
    const int32_t warm_up = layout_.classes() - 1 - layout_.ClassOf(rank_);
    for (int32_t i = 0; i < warm_up; ++i)
      Forward();
    for (int32_t i = warm_up; i < 11; ++i) {
      Forward();
      Backward();
    }
    for (int32_t i = 0; i < warm_up; ++i)
      Backward();
    // A distributed optimizer: 960 numbers, each replica's share of them.
    const uint64_t share =
        960 / static_cast<uint64_t>(layout_.GroupSize(*layout_.ParseSet("dp")));
    slice_.Collective(CollectiveKind::kReduceScatter, data_, share);
    slice_.Collective(CollectiveKind::kAllGather, data_, share);
    slice_.AllReduce(world_, 1);
    slice_.Collective(CollectiveKind::kAllGather, world_, 3);  // keeps its size
    slice_.Synchronize();
  }

  void Forward() {
    Exchange(-1, 0);
    slice_.AllReduce(tensor_, 32);
    Exchange(1, 1);
  }
  void Backward() {
    Exchange(1, 0);
    slice_.AllReduce(tensor_, 64);
    Exchange(-1, 1);
  }

  SliceMaker& slice() { return slice_; }
  uint32_t pipeline() const { return pipeline_; }
  uint32_t data() const { return data_; }

 private:
  // With the stage `away`, if there is one.
  void Exchange(int32_t away, uint32_t is_send) {
    const int32_t stage = layout_.ClassOf(rank_) + away;
    if (stage >= 0 && stage < layout_.classes())
      slice_.Transfers(pipeline_, {{4096, static_cast<uint32_t>(stage), is_send}});
  }

  uint32_t Split(const char* name) {
    const DimensionSet set = *layout_.ParseSet(name);
    const DimensionSet outside = layout_.all() & ~set;
    const auto place = static_cast<uint32_t>(layout_.PlaceInGroup(rank_, set));
    const auto size = static_cast<uint32_t>(layout_.GroupSize(set));
    const uint32_t number =
        slice_.Split(world_, static_cast<int32_t>(layout_.PlaceInGroup(rank_, outside)),
                     static_cast<int32_t>(place), size, place);
    slice_.Reserve(number, kMemory.OnDevice(size));
    return number;
  }

  const Layout& layout_;
  const int32_t rank_;
  SliceMaker slice_;
  uint32_t world_ = 0, tensor_ = 0, data_ = 0, pipeline_ = 0;
};

// Coordinates that both sizes have, and that tell the groups of both.
std::vector<int32_t> TracedRanks(const Layout& layout) {
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < layout.world_size(); ++rank)
    if (layout.Coordinate(rank, 0) == 1 && layout.Coordinate(rank, 1) == 1)
      ranks.push_back(rank);
  return ranks;
}

ExecutionGraph Build(const std::string& text) {
  const Layout layout = *Layout::ParseWorld(text);
  std::vector<RankTrace> slices;
  for (const int32_t rank : TracedRanks(layout)) {
    Megatron program(layout, rank);
    program.Train();
    slices.push_back(program.slice().trace);
  }
  absl::StatusOr<ExecutionGraph> graph =
      BuildGraph(slices, {"", {"world:0=tp", "world:1=dp", "world:2=pp"}});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : ExecutionGraph();
}

absl::StatusOr<ExecutionGraph> Scale(const ExecutionGraph& graph,
                                     const std::string& to) {
  const Layout layout = *Layout::Parse(graph.layout, graph.world_size);
  std::vector<GroupHint> hints;
  for (const std::string& hint : graph.group_hints)
    hints.push_back(*ParseGroupHint(hint, layout));
  std::vector<int32_t> traced;
  for (int32_t rank = 0; rank < graph.world_size; ++rank)
    if (graph.ranks[static_cast<size_t>(rank)].leader == rank)
      traced.push_back(rank);
  MembershipInference membership(layout, traced, hints, CallSource::kTraced);
  const absl::StatusOr<ResolvedJob> job =
      ResolveCommunicators(JobOf(graph), &membership);
  EXPECT_TRUE(job.ok()) << job.status();
  return ScaleGraph(graph, *job, hints, kMemory, *Layout::ParseWorld(to));
}

void ExpectSame(const ExecutionGraph& scaled, const ExecutionGraph& expected) {
  EXPECT_EQ(scaled.layout, expected.layout);
  EXPECT_EQ(scaled.world_size, expected.world_size);
  ASSERT_EQ(scaled.communicators.size(), expected.communicators.size());
  for (size_t i = 0; i < expected.communicators.size(); ++i)
    EXPECT_EQ(scaled.communicators[i].members, expected.communicators[i].members);
  ASSERT_EQ(scaled.programs.size(), expected.programs.size());
  for (size_t i = 0; i < expected.programs.size(); ++i)
    EXPECT_EQ(FirstDifference(*scaled.programs[i], *expected.programs[i], {}), "") << i;
  for (size_t rank = 0; rank < expected.ranks.size(); ++rank) {
    EXPECT_EQ(scaled.ranks[rank].leader, expected.ranks[rank].leader);
    EXPECT_EQ(scaled.ranks[rank].rank_class, expected.ranks[rank].rank_class);
  }
}

TEST(ScaleGraphTest, EqualsTheGraphOfSlicesOfThatManyReplicas) {
  for (const auto& [from, to] : {std::pair("tp=2,dp=2,pp=3", "tp=2,dp=8,pp=3"),
                                 std::pair("tp=2,dp=8,pp=3", "tp=2,dp=4,pp=3"),
                                 std::pair("tp=4,dp=3,pp=2", "tp=4,dp=5,pp=2")}) {
    SCOPED_TRACE(to);
    const ExecutionGraph expected = Build(to);
    const absl::StatusOr<ExecutionGraph> scaled = Scale(Build(from), to);
    ASSERT_TRUE(scaled.ok()) << scaled.status();
    ExpectSame(*scaled, expected);
    ASSERT_EQ(scaled->losses.size(), 3u);
    EXPECT_EQ(scaled->losses[0].name, "scaled_replicas");
    EXPECT_EQ(scaled->losses[1].count, 2 * expected.programs.size()) << "shares";
    EXPECT_EQ(scaled->losses[2].count, expected.programs.size()) << "sizes kept";
  }
}

TEST(ScaleGraphTest, EqualsTheGraphOfSlicesOfThatManyStages) {
  for (const int32_t from : {5, 6, 8}) {
    const ExecutionGraph graph = Build(fmt::format("tp=2,dp=2,pp={}", from));
    for (const int32_t to : {2, 3, 4, 5, 6, 7, 10}) {
      if (from == to)
        continue;
      SCOPED_TRACE(fmt::format("{} to {} stages", from, to));
      const std::string layout = fmt::format("tp=2,dp=2,pp={}", to);
      const absl::StatusOr<ExecutionGraph> scaled = Scale(graph, layout);
      ASSERT_TRUE(scaled.ok()) << scaled.status();
      ExpectSame(*scaled, Build(layout));
      EXPECT_EQ(scaled->losses[0].name, "scaled_stages");
    }
  }
}

TEST(ScaleGraphTest, RefusesSchedulesThatItCannotKnow) {
  const auto error = [](const std::string& from, const std::string& to) {
    return std::string(Scale(Build(from), to).status().message());
  };
  EXPECT_THAT(error("tp=2,dp=2,pp=4", "tp=2,dp=2,pp=8"),
              HasSubstr("with pp=5 or more"));
  EXPECT_THAT(error("tp=2,dp=2,pp=6", "tp=2,dp=2,pp=16"),
              HasSubstr("than the schedule has micro-batches for"));
}

TEST(ScaleGraphTest, RefusesWhatItCannotKnow) {
  const ExecutionGraph graph = Build("tp=2,dp=2,pp=2");
  const auto error = [&](const std::string& to) {
    return std::string(Scale(graph, to).status().message());
  };
  EXPECT_THAT(error("tp=4,dp=2,pp=2"), HasSubstr("only dp and pp can change"));
  EXPECT_THAT(error("tp=2,dp=4,pp=4"), HasSubstr("scale the graph along one"));
  EXPECT_THAT(error("tp=2,pp=2"), HasSubstr("the same dimensions in the same order"));
  EXPECT_THAT(error("tp=2,dp=4,pp=2,order=tp-pp-dp"), HasSubstr("in the same order"));
  EXPECT_THAT(error("tp=2,dp=2,pp=2"), HasSubstr("already"));
}

TEST(ScaleGraphTest, RefusesInterleavedSchedules) {
  const Layout layout = *Layout::ParseWorld("tp=2,dp=2,pp=5");
  std::vector<RankTrace> slices;
  for (const int32_t rank : TracedRanks(layout)) {
    Megatron program(layout, rank);
    const auto stage = static_cast<uint32_t>(layout.ClassOf(rank));
    program.slice().Transfers(program.pipeline(),
                              {{64, (stage + 1) % 5, 1}, {64, (stage + 4) % 5, 0}});
    program.slice().Synchronize();
    slices.push_back(program.slice().trace);
  }
  const absl::StatusOr<ExecutionGraph> graph =
      BuildGraph(slices, {"", {"world:0=tp", "world:1=dp", "world:2=pp"}});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Scale(*graph, "tp=2,dp=2,pp=8").status().message(),
              HasSubstr("rank 3 exchanges with a stage that is 4 away"));
}

TEST(ScaleGraphTest, RefusesPeersThatAreAnotherReplica) {
  const Layout layout = *Layout::ParseWorld("tp=2,dp=2,pp=2");
  std::vector<RankTrace> slices;
  for (const int32_t rank : TracedRanks(layout)) {
    Megatron program(layout, rank);
    program.slice().Transfers(program.data(), {{64, 0, 1}, {64, 0, 0}});
    program.slice().Synchronize();
    slices.push_back(program.slice().trace);
  }
  const absl::StatusOr<ExecutionGraph> graph =
      BuildGraph(slices, {"", {"world:0=tp", "world:1=dp", "world:2=pp"}});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Scale(*graph, "tp=2,dp=4,pp=2").status().message(),
              HasSubstr("rank 3: it sends to rank 1, which is another replica"));
}

// What only a damaged or hostile file says.
TEST(ScaleGraphTest, RefusesCommunicatorsAndMembersThatDoNotExist) {
  const auto error = [](const std::function<void(Op*, Details*)>& damage) {
    ExecutionGraph graph = Build("tp=2,dp=2,pp=2");
    for (auto& program : graph.programs) {
      auto ops = std::make_shared<std::vector<Op>>();
      Details details = program->details();
      for (uint64_t i = 0; i < program->size(); ++i) {
        ops->push_back(program->op(i));
        damage(&ops->back(), &details);
      }
      program = std::make_unique<Program>(*ops, std::move(details), ops);
    }
    return std::string(Scale(graph, "tp=2,dp=4,pp=2").status().message());
  };
  EXPECT_THAT(error([](Op* op, Details*) {
                if (op->kind == OpKind::kCollective)
                  op->a = 77;
              }),
              HasSubstr("rank 3: it uses communicator 77, of which it is no member"));
  EXPECT_THAT(error([](Op* op, Details* details) {
                if (op->kind == OpKind::kCollective)
                  details->collectives[op->b].root = 99;
              }),
              HasSubstr("it names member 99 of a communicator of 2"));
}

}  // namespace
}  // namespace vrank::graph
