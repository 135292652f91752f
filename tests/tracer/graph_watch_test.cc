// CUDA graphs: what the tracer makes of CUPTI's resource callbacks.

#include "tracer/cupti/graph_watch.h"

#include <initializer_list>

#include <gmock/gmock.h>

#include "tests/tracer/cupti_session_fixture.h"
#include "tracer/nccl_sink.h"

namespace vrank::tracer {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class GraphWatchTest : public CuptiSessionTest {};

// Says what CUPTI would say of graphs. Nodes and executable graphs are numbers.
class GraphTeller {
 public:
  explicit GraphTeller(FakeCupti* fake) : fake_(*fake) {}

  void Node(uintptr_t node, CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL) {
    CUpti_GraphData data{};
    data.node = reinterpret_cast<CUgraphNode>(node);
    data.nodeType = type;
    Tell(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, data);
  }
  void Edge(uintptr_t from, uintptr_t to, bool created = true) {
    CUpti_GraphData data{};
    data.node = reinterpret_cast<CUgraphNode>(from);
    data.dependency = reinterpret_cast<CUgraphNode>(to);
    Tell(created ? CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED
                 : CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING,
         data);
  }
  // Copies get the numbers of their originals, plus 1000.
  void Exec(uintptr_t exec, std::initializer_list<uintptr_t> nodes) {
    CUpti_GraphData data{};
    Tell(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING, data);
    for (const uintptr_t node : nodes) {
      data.node = reinterpret_cast<CUgraphNode>(node + 1000);
      data.originalNode = reinterpret_cast<CUgraphNode>(node);
      Tell(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, data);
    }
    data = {};
    data.graphExec = reinterpret_cast<CUgraphExec>(exec);
    Tell(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED, data);
  }
  // A clone's nodes get the numbers of their originals, plus 100.
  void Clone(std::initializer_list<uintptr_t> nodes) {
    for (const uintptr_t node : nodes) {
      CUpti_GraphData data{};
      data.node = reinterpret_cast<CUgraphNode>(node + 100);
      data.originalNode = reinterpret_cast<CUgraphNode>(node);
      Tell(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, data);
    }
  }
  void Changed(uintptr_t exec_node) {
    CUpti_GraphData data{};
    data.node = reinterpret_cast<CUgraphNode>(exec_node);
    Tell(CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED, data);
  }
  void Ends(uintptr_t exec, uint32_t correlation) {
    CUpti_GraphData data{};
    data.graphExec = reinterpret_cast<CUgraphExec>(exec);
    const auto destroy = CUPTI_RUNTIME_TRACE_CBID_cudaGraphExecDestroy_v10000;
    Call(destroy, correlation, CUPTI_API_ENTER, nullptr);
    Tell(CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING, data);
    Call(destroy, correlation, CUPTI_API_EXIT, nullptr);
  }
  void Launch(uintptr_t exec, uintptr_t stream, uint32_t correlation) {
    const cudaGraphLaunch_v10000_params parameters{
        reinterpret_cast<cudaGraphExec_t>(exec),
        reinterpret_cast<cudaStream_t>(stream)};
    const auto launch = CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000;
    Call(launch, correlation, CUPTI_API_ENTER, &parameters);
    Call(launch, correlation, CUPTI_API_EXIT, &parameters);
  }

 private:
  void Tell(CUpti_CallbackId cbid, CUpti_GraphData data) {
    CUpti_ResourceData resource{};
    resource.resourceDescriptor = &data;
    fake_.callback(fake_.user, CUPTI_CB_DOMAIN_RESOURCE, cbid, &resource);
  }
  void Call(CUpti_CallbackId cbid, uint32_t correlation, CUpti_ApiCallbackSite site,
            const void* parameters) {
    CUpti_CallbackData call{};
    call.callbackSite = site;
    call.correlationId = correlation;
    call.contextUid = 3;
    call.functionParams = parameters;
    fake_.callback(fake_.user, CUPTI_CB_DOMAIN_RUNTIME_API, cbid, &call);
  }

  FakeCupti& fake_;
};

TEST_F(GraphWatchTest, NamesTheNodesOfALaunchedGraph) {
  const graph::RankTrace trace = Trace([&] {
    NcclSink sink(&tracer);
    GraphTeller tell(fake);
    tell.Node(5);
    tell.Node(6, CU_GRAPH_NODE_TYPE_MEMCPY);
    tell.Edge(5, 6);
    protocol::Collective call{};
    call.communicator = 2;
    call.count = 77;
    sink.BeginCollective(call, /*captured=*/true);
    EXPECT_TRUE(fake->pushed.empty());
    tell.Node(7);
    tell.Edge(5, 7);
    tell.Edge(6, 7);
    tell.Node(8, CU_GRAPH_NODE_TYPE_HOST);  // NCCL's, and not its kernel
    sink.EndOperation();
    tell.Edge(6, 8);
    tell.Edge(6, 8, /*created=*/false);
    tell.Exec(40, {5, 6, 7, 8});
    tell.Launch(40, 9, 21);
    tell.Launch(40, 10, 22);
    tell.Changed(1006);
    tell.Ends(40, 23);
    tell.Exec(41, {5, 6, 7, 8});  // never launched
  });
  ASSERT_EQ(trace.graph_nodes.size(), 4u);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(trace.graph_nodes[i].graph, 1u);
    EXPECT_EQ(trace.graph_nodes[i].index, i);
    EXPECT_EQ(trace.graph_nodes[i].node, i + 1);
  }
  EXPECT_EQ(trace.graph_nodes[1].kind, graph::GraphNodeKind::kCopy);
  EXPECT_THAT(trace.graph_nodes[1].before, ElementsAre(0u));
  EXPECT_THAT(trace.graph_nodes[2].before, ElementsAre(0u, 1u));
  EXPECT_THAT(trace.graph_nodes[3].before, ElementsAre());
  ASSERT_EQ(trace.operations.size(), 1u);
  EXPECT_EQ(trace.operations[0].call.count, 77u);
  EXPECT_EQ(trace.operations[0].captured, 1u);
  EXPECT_THAT(trace.graph_nodes[2].operations, ElementsAre(1u));
  EXPECT_THAT(trace.graph_nodes[3].operations, ElementsAre());
  ASSERT_EQ(trace.graph_launches.size(), 2u);
  EXPECT_EQ(trace.graph_launches[1].correlation, 22u);
  EXPECT_EQ(trace.graph_launches[1].stream, 10u);
  EXPECT_EQ(trace.graph_launches[1].context, 3u);
  ASSERT_EQ(trace.graph_changes.size(), 2u);
  EXPECT_FALSE(trace.graph_changes[0].ended);
  EXPECT_TRUE(trace.graph_changes[1].ended);
  EXPECT_EQ(trace.graph_changes[1].correlation, 23u);
}

TEST_F(GraphWatchTest, ClonesHaveTheOriginalsEdgesAndOperations) {
  const graph::RankTrace trace = Trace([&] {
    NcclSink sink(&tracer);
    GraphTeller tell(fake);
    tell.Node(5);
    protocol::Collective call{};
    call.communicator = 2;
    sink.BeginCollective(call, /*captured=*/true);
    tell.Node(6);
    sink.EndOperation();
    tell.Node(7);
    tell.Edge(5, 6);
    tell.Edge(6, 7);
    tell.Edge(5, 7);
    // In whichever order, however often, and of clones, too.
    tell.Clone({7, 5, 6});
    tell.Clone({107, 106, 105});
    // What becomes of the original afterwards is none of the clone's business.
    tell.Edge(5, 7, /*created=*/false);
    tell.Exec(40, {105, 106, 107});
    tell.Exec(41, {205, 206, 207});
    tell.Launch(40, 9, 21);
    tell.Launch(41, 9, 22);
  });
  ASSERT_EQ(trace.graph_nodes.size(), 6u);
  ASSERT_EQ(trace.operations.size(), 1u);
  for (const size_t first : {size_t{0}, size_t{3}}) {
    EXPECT_THAT(trace.graph_nodes[first].before, ElementsAre());
    EXPECT_THAT(trace.graph_nodes[first + 1].before, ElementsAre(0u));
    EXPECT_THAT(trace.graph_nodes[first + 2].before, UnorderedElementsAre(0u, 1u));
    EXPECT_THAT(trace.graph_nodes[first + 1].operations,
                ElementsAre(trace.operations[0].captured));
  }
}

TEST_F(GraphWatchTest, NamesNoNodesOfGraphsThatItDoesNotKnowWhole) {
  const graph::RankTrace trace = Trace([&] {
    GraphTeller tell(fake);
    tell.Node(5);
    tell.Node(6, CU_GRAPH_NODE_TYPE_GRAPH);
    tell.Exec(40, {5, 6});   // a child graph
    tell.Exec(41, {5, 99});  // made before the trace began
    tell.Launch(40, 9, 21);
    tell.Launch(41, 9, 22);
  });
  EXPECT_TRUE(trace.graph_nodes.empty());
  EXPECT_EQ(trace.graph_launches.size(), 2u);
}

}  // namespace
}  // namespace vrank::tracer
