// What a launch of a graph writes, and what it does to memory.

#include <cstring>

#include "tests/virtual_gpu/graphs/graphs_fixture.h"

namespace vrank::gpu {
namespace {

using ::testing::ElementsAre;

class GraphLaunchTest : public GraphsTest {
 protected:
  // A captured chain: memset, kernel, copy of `from` to `to`.
  void* CaptureChain(void* stream, void* from, void* to) {
    Begin(stream);
    EXPECT_EQ(gpu->Fill({.to = from,
                         .value = 7,
                         .elements = 64,
                         .stream = stream,
                         .asynchronous = true}),
              Error::kSuccess);
    EXPECT_EQ(LaunchGrid(stream, 5), Error::kSuccess);
    EXPECT_EQ(CopyBytes(to, from, 64, stream, true), Error::kSuccess);
    return End(stream);
  }
  Error Go(void* exec, void* stream) { return graphs().Launch(exec, stream); }
};

TEST_F(GraphLaunchTest, TellsTheBodyOnce) {
  void* stream = NewStream(kStreamNonBlocking);
  void* exec = Instantiate(CaptureChain(stream, NewMemory(64), NewMemory(64)));
  channel.Clear();
  ASSERT_EQ(Go(exec, stream), Error::kSuccess);
  EXPECT_THAT(Kinds(), ElementsAre(RecordKind::kGraphLaunch, RecordKind::kMemset,
                                   RecordKind::kKernel, RecordKind::kCopy,
                                   RecordKind::kRecordToken, RecordKind::kGraphEnd));
  for (const FakeChannel::Written& record : channel.records()) {
    const bool body =
        record.kind != RecordKind::kGraphLaunch && record.kind != RecordKind::kGraphEnd;
    EXPECT_EQ((record.as<protocol::Record>().flags & protocol::kInGraph) != 0, body);
  }
  const auto first = channel.records()[0].as<protocol::GraphLaunch>();
  channel.Clear();
  ASSERT_EQ(Go(exec, stream), Error::kSuccess);
  ASSERT_THAT(Kinds(), ElementsAre(RecordKind::kGraphLaunch));
  const auto second = channel.records()[0].as<protocol::GraphLaunch>();
  EXPECT_EQ(second.graph, first.graph);
  EXPECT_EQ(second.nodes_follow, 0u);
  channel.Clear();
  ASSERT_EQ(graphs().DestroyExec(exec), Error::kSuccess);
  EXPECT_THAT(Kinds(), ElementsAre(RecordKind::kGraphForget));
}

TEST_F(GraphLaunchTest, EachLaunchMovesBytesAnew) {
  void* stream = NewStream();
  void* from = NewMemory(64);
  void* to = NewMemory(64);
  void* exec = Instantiate(CaptureChain(stream, from, to));
  unsigned char seen[64];
  for (int launch = 0; launch < 3; ++launch) {
    std::memset(seen, 9, sizeof seen);
    ASSERT_EQ(CopyBytes(to, seen, 64), Error::kSuccess);
    ASSERT_EQ(Go(exec, stream), Error::kSuccess);
    ASSERT_EQ(CopyBytes(seen, to, 64), Error::kSuccess);
    EXPECT_EQ(seen[0], 7);
    EXPECT_EQ(seen[63], 7);
  }
}

TEST_F(GraphLaunchTest, KernelsOverwriteWhatTheyPointTo) {
  void* stream = NewStream();
  void* memory = NewMemory(64);
  Begin(stream);
  ASSERT_EQ(LaunchGrid(stream, 1, memory), Error::kSuccess);
  void* exec = Instantiate(End(stream));
  for (int launch = 0; launch < 2; ++launch) {
    unsigned char bytes[64];
    std::memset(bytes, 9, sizeof bytes);
    ASSERT_EQ(CopyBytes(memory, bytes, 64), Error::kSuccess);
    ASSERT_EQ(gpu->libraries().Inspect(memory, 64)[0].state,
              protocol::PayloadState::kKnown);
    ASSERT_EQ(Go(exec, stream), Error::kSuccess);
    EXPECT_EQ(gpu->libraries().Inspect(memory, 64)[0].state,
              protocol::PayloadState::kComputed);
  }
}

TEST_F(GraphLaunchTest, LaunchesOnOtherStreamsFollowEachOther) {
  void* a = NewStream(kStreamNonBlocking);
  void* b = NewStream(kStreamNonBlocking);
  void* exec = Instantiate(CaptureChain(a, NewMemory(64), NewMemory(64)));
  ASSERT_EQ(Go(exec, a), Error::kSuccess);
  const auto done = channel.records(RecordKind::kRecordToken).back();
  channel.Clear();
  ASSERT_EQ(Go(exec, b), Error::kSuccess);
  ASSERT_THAT(Kinds(), ElementsAre(RecordKind::kWaitToken, RecordKind::kGraphLaunch));
  const auto wait = channel.records()[0].as<protocol::TokenOnLane>();
  EXPECT_EQ(wait.token, done.as<protocol::TokenOnLane>().token);
  EXPECT_EQ(wait.lane, LaneOf(b));
}

TEST_F(GraphLaunchTest, HostFunctionsRunInEachLaunch) {
  void* stream = NewStream();
  int runs = 0;
  Begin(stream);
  ASSERT_EQ(gpu->LaunchHostFunction(
                stream, [](void* data) { ++*static_cast<int*>(data); }, &runs),
            Error::kSuccess);
  void* exec = Instantiate(End(stream));
  for (int launch = 1; launch <= 3; ++launch) {
    ASSERT_EQ(Go(exec, stream), Error::kSuccess);
    ASSERT_EQ(gpu->SynchronizeStream(stream), Error::kSuccess);
    EXPECT_EQ(runs, launch);
  }
}

TEST_F(GraphLaunchTest, ExternalEventsAreRecordedByEachLaunch) {
  void* stream = NewStream();
  void* event = NewEvent();
  Begin(stream);
  ASSERT_EQ(gpu->RecordEvent(event, stream, /*external=*/true), Error::kSuccess);
  void* exec = Instantiate(End(stream));
  channel.Clear();
  ASSERT_EQ(Go(exec, stream), Error::kSuccess);
  ASSERT_EQ(Go(exec, stream), Error::kSuccess);
  EXPECT_EQ(channel.records(RecordKind::kRecordToken).size(), 4u);  // and two "done"
  EXPECT_EQ(gpu->SynchronizeEvent(event), Error::kSuccess);
}

TEST_F(GraphLaunchTest, ChildGraphsAreLaunchedWithTheirParent) {
  void* child = NewGraph();
  void* out = NewMemory(64);
  Add(child, KernelOf(2, &out));
  void* parent = NewGraph();
  void* first = Add(parent, KernelOf(1, &out));
  void* inner = Add(parent, ChildGraphParameters{child}, {first});
  Add(parent, KernelOf(3, &out), {inner});
  void* exec = Instantiate(parent);
  channel.Clear();
  void* stream = NewStream();
  ASSERT_EQ(Go(exec, stream), Error::kSuccess);
  std::vector<uint32_t> grids;
  for (const auto& record : channel.records(RecordKind::kKernel))
    grids.push_back(record.as<protocol::Kernel>().grid[0]);
  EXPECT_THAT(grids, ElementsAre(1, 2, 3));
  EXPECT_EQ(graphs().Destroy(child), Error::kSuccess);
  EXPECT_EQ(Go(exec, stream), Error::kSuccess);
}

TEST_F(GraphLaunchTest, CapturedLaunchBecomesAChild) {
  void* stream = NewStream();
  Begin(stream);
  ASSERT_EQ(LaunchGrid(stream, 1), Error::kSuccess);
  void* exec = Instantiate(End(stream));
  Begin(stream);
  ASSERT_EQ(Go(exec, stream), Error::kSuccess);
  void* graph = End(stream);
  std::vector<void*> nodes;
  ASSERT_EQ(graphs().GetNodes(graph, &nodes), Error::kSuccess);
  ASSERT_EQ(nodes.size(), 1u);
  GraphNodeType type{};
  ASSERT_EQ(graphs().GetNodeType(nodes[0], &type), Error::kSuccess);
  EXPECT_EQ(type, GraphNodeType::kChild);
}

TEST_F(GraphLaunchTest, ChangedParametersReachTheNextLaunch) {
  void* graph = NewGraph();
  void* out = NewMemory(64);
  void* node = Add(graph, KernelOf(1, &out));
  void* exec = Instantiate(graph);
  void* stream = NewStream();
  ASSERT_EQ(Go(exec, stream), Error::kSuccess);
  ASSERT_EQ(graphs().SetExecParameters(exec, node, KernelOf(8, &out)), Error::kSuccess);
  channel.Clear();
  ASSERT_EQ(Go(exec, stream), Error::kSuccess);
  ASSERT_EQ(channel.records(RecordKind::kKernel).size(), 1u);
  EXPECT_EQ(channel.records(RecordKind::kKernel)[0].as<protocol::Kernel>().grid[0], 8u);
  ASSERT_EQ(graphs().SetNodeEnabled(exec, node, false), Error::kSuccess);
  channel.Clear();
  ASSERT_EQ(Go(exec, stream), Error::kSuccess);
  EXPECT_TRUE(channel.records(RecordKind::kKernel).empty());
}

TEST_F(GraphLaunchTest, UpdateTakesOverWhatIsAlikeAndNamesWhatIsNot) {
  void* out = NewMemory(64);
  void* graph = NewGraph();
  void* first = Add(graph, KernelOf(1, &out));
  Add(graph, KernelOf(2, &out), {first});
  void* exec = Instantiate(graph);

  void* same = NewGraph();
  void* a = Add(same, KernelOf(4, &out));
  Add(same, KernelOf(5, &out), {a});
  GraphUpdate update;
  EXPECT_EQ(graphs().Update(exec, same, &update), Error::kSuccess);
  EXPECT_EQ(update.result, UpdateResult::kSuccess);

  void* loose = NewGraph();
  Add(loose, KernelOf(4, &out));
  void* b = Add(loose, KernelOf(5, &out));
  EXPECT_EQ(graphs().Update(exec, loose, &update), Error::kGraphExecUpdateFailure);
  EXPECT_EQ(update.result, UpdateResult::kTopologyChanged);
  EXPECT_EQ(update.error_node, b);

  void* other = NewGraph();
  void* c = Add(other, EmptyParameters{});
  Add(other, KernelOf(5, &out), {c});
  EXPECT_EQ(graphs().Update(exec, other, &update), Error::kGraphExecUpdateFailure);
  EXPECT_EQ(update.result, UpdateResult::kNodeTypeChanged);
  EXPECT_EQ(update.error_node, c);
}

TEST_F(GraphLaunchTest, CyclesAreNoGraph) {
  void* graph = NewGraph();
  void* a = Add(graph, EmptyParameters{});
  void* b = Add(graph, EmptyParameters{}, {a});
  const GraphEdge back{b, a, {}};
  ASSERT_EQ(graphs().Connect(graph, {&back, 1}), Error::kSuccess);
  Instantiation how;
  void* exec = nullptr;
  EXPECT_EQ(graphs().Instantiate(graph, &how, &exec), Error::kInvalidValue);
  EXPECT_EQ(how.result, InstantiateResult::kInvalidStructure);
}

TEST_F(GraphLaunchTest, UserObjectsLiveAsLongAsTheirGraphs) {
  int destroyed = 0;
  void* object = nullptr;
  ASSERT_EQ(graphs().CreateUserObject(
                &destroyed, [](void* data) { ++*static_cast<int*>(data); }, 1, &object),
            Error::kSuccess);
  void* graph = NewGraph();
  ASSERT_EQ(graphs().RetainForGraph(graph, object, 1, /*move=*/true), Error::kSuccess);
  void* exec = Instantiate(graph);
  ASSERT_EQ(graphs().Destroy(graph), Error::kSuccess);
  EXPECT_EQ(destroyed, 0);
  ASSERT_EQ(graphs().DestroyExec(exec), Error::kSuccess);
  EXPECT_EQ(destroyed, 1);
}

}  // namespace
}  // namespace vrank::gpu
