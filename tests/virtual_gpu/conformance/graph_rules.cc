// CUDA runtime API, "Graph management"; CUDA programming guide, "CUDA Graphs".

#include <vector>

#include "tests/virtual_gpu/conformance/graph_support.h"

namespace conformance {
namespace {

// A graph built by hand: memset, then copy, by an edge.
void GraphsCanBeBuiltByHand() {
  Buffers buffers;
  cudaGraph_t graph = nullptr;
  EXPECT_OK(cudaGraphCreate(&graph, 0));
  cudaMemsetParams fill{};
  fill.dst = buffers.device;
  fill.value = 9;
  fill.elementSize = 1;
  fill.width = kBytes;
  fill.height = 1;
  cudaGraphNode_t first = nullptr, second = nullptr;
  EXPECT_OK(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &fill));
  EXPECT_OK(cudaGraphAddMemcpyNode1D(&second, graph, &first, 1, buffers.host,
                                     buffers.device, kBytes, cudaMemcpyDeviceToHost));
  cudaMemsetParams seen{};
  EXPECT_OK(cudaGraphMemsetNodeGetParams(first, &seen));
  EXPECT_THAT(seen.dst == fill.dst && seen.value == 9 && seen.width == kBytes);
  size_t count = 1;
  cudaGraphNode_t before = nullptr;
  EXPECT_OK(cudaGraphNodeGetDependencies(second, &before, nullptr, &count));
  EXPECT_THAT(count == 1 && before == first);
  cudaGraphExec_t exec = nullptr;
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cudaGraphLaunch(exec, nullptr));
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_THAT(buffers.host[0] == 9 && buffers.host[kBytes - 1] == 9);

  // cudaGraphExecMemsetNodeSetParams: "only affects future launches".
  fill.value = 8;
  EXPECT_OK(cudaGraphExecMemsetNodeSetParams(exec, first, &fill));
  EXPECT_OK(cudaGraphLaunch(exec, nullptr));
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_THAT(buffers.host[0] == 8);
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphDestroy(graph));
}

// cudaGraphInstantiate fails for a graph with a cycle; cudaGraphClone copies, and
// cudaGraphNodeFindInClone finds the copies.
void ClonesKnowTheirOriginals() {
  cudaGraph_t graph = nullptr, clone = nullptr;
  cudaGraphNode_t a = nullptr, b = nullptr, found = nullptr;
  EXPECT_OK(cudaGraphCreate(&graph, 0));
  EXPECT_OK(cudaGraphAddEmptyNode(&a, graph, nullptr, 0));
  EXPECT_OK(cudaGraphAddEmptyNode(&b, graph, &a, 1));
  EXPECT_OK(cudaGraphClone(&clone, graph));
  EXPECT_OK(cudaGraphNodeFindInClone(&found, b, clone));
  EXPECT_THAT(found != b);
  size_t count = 0;
  EXPECT_OK(cudaGraphNodeGetDependencies(found, nullptr, nullptr, &count));
  EXPECT_THAT(count == 1);
  EXPECT_OK(cudaGraphDestroy(graph));
  EXPECT_THAT(NodesOf(clone) == 2);
  EXPECT_OK(cudaGraphDestroy(clone));
}

// cudaGraphExecUpdate: "cudaGraphExecUpdateErrorTopologyChanged if the graph topology
// changed".
void UpdatesNeedTheSameTopology() {
  cudaGraph_t one = nullptr, two = nullptr;
  cudaGraphNode_t node = nullptr;
  EXPECT_OK(cudaGraphCreate(&one, 0));
  EXPECT_OK(cudaGraphAddEmptyNode(&node, one, nullptr, 0));
  cudaGraphExec_t exec = nullptr;
  EXPECT_OK(cudaGraphInstantiate(&exec, one, 0));
  EXPECT_OK(cudaGraphCreate(&two, 0));
  EXPECT_OK(cudaGraphAddEmptyNode(&node, two, nullptr, 0));
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_OK(cudaGraphExecUpdate(exec, two, &info));
  EXPECT_THAT(info.result == cudaGraphExecUpdateSuccess);
  EXPECT_OK(cudaGraphAddEmptyNode(&node, two, nullptr, 0));
  EXPECT_ERROR(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, two, &info));
  EXPECT_THAT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphDestroy(one));
  EXPECT_OK(cudaGraphDestroy(two));
}

// Host nodes run in each launch, in order.
void HostNodesRunInOrder() {
  Stream stream;
  std::vector<int> turns;
  struct Turn {
    std::vector<int>* turns;
    int number;
  };
  const auto note = [](void* data) {
    auto* turn = static_cast<Turn*>(data);
    turn->turns->push_back(turn->number);
  };
  Turn calls[3] = {{&turns, 0}, {&turns, 1}, {&turns, 2}};
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (Turn& call : calls)
    EXPECT_OK(cudaLaunchHostFunc(stream, note, &call));
  cudaGraph_t graph = nullptr;
  EXPECT_OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cudaGraphLaunch(exec, stream));
  EXPECT_OK(cudaGraphLaunch(exec, stream));
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_THAT((turns == std::vector<int>{0, 1, 2, 0, 1, 2}));
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphDestroy(graph));
}

// cudaMallocAsync in a capture makes an allocation node: memory of the graph.
void AllocationsBelongToTheGraph() {
  Buffers buffers;
  Stream stream;
  void* memory = nullptr;
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_OK(cudaMallocAsync(&memory, kBytes, stream));
  EXPECT_OK(cudaMemsetAsync(memory, 6, kBytes, stream));
  EXPECT_OK(
      cudaMemcpyAsync(buffers.host, memory, kBytes, cudaMemcpyDeviceToHost, stream));
  EXPECT_OK(cudaFreeAsync(memory, stream));
  cudaGraph_t graph = nullptr;
  EXPECT_OK(cudaStreamEndCapture(stream, &graph));
  EXPECT_THAT(NodesOf(graph) == 4);
  cudaGraphExec_t exec = nullptr;
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cudaGraphLaunch(exec, stream));
  EXPECT_OK(cudaGraphLaunch(exec, stream));
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_THAT(buffers.host[7] == 6);
  // What launches took stays "currently associated with graphs" until it is trimmed.
  unsigned long long used = 0, reserved = 0;
  EXPECT_OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  EXPECT_OK(
      cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
  EXPECT_THAT(used >= kBytes);
  EXPECT_THAT(used == reserved);
  EXPECT_OK(cudaDeviceGraphMemTrim(0));
  EXPECT_OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  EXPECT_OK(
      cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
  EXPECT_THAT(used == 0);
  EXPECT_THAT(reserved == 0);
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphDestroy(graph));
  EXPECT_OK(cudaDeviceGraphMemTrim(0));
}

// cudaEventRecordWithFlags: with cudaEventRecordExternal "the event record is performed
// as an external event node".
void ExternalEventsAreNodes() {
  Stream stream;
  Event event;
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_OK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
  cudaGraph_t graph = nullptr;
  EXPECT_OK(cudaStreamEndCapture(stream, &graph));
  size_t count = 1;
  cudaGraphNode_t node = nullptr;
  EXPECT_OK(cudaGraphGetNodes(graph, &node, &count));
  cudaGraphNodeType type{};
  EXPECT_OK(cudaGraphNodeGetType(node, &type));
  EXPECT_THAT(type == cudaGraphNodeTypeEventRecord);
  cudaGraphExec_t exec = nullptr;
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cudaGraphLaunch(exec, stream));
  EXPECT_OK(cudaEventSynchronize(event));
  EXPECT_OK(cudaEventQuery(event));
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphDestroy(graph));
}

void CountDestruction(void* data) {
  ++*static_cast<int*>(data);
}

// cudaUserObjectCreate: "the destructor will be executed when the refcount reaches
// zero".
void UserObjectsLiveAsLongAsTheirGraph() {
  static int destroyed = 0;
  destroyed = 0;
  cudaGraph_t graph = nullptr;
  cudaUserObject_t object = nullptr;
  EXPECT_OK(cudaGraphCreate(&graph, 0));
  EXPECT_OK(cudaUserObjectCreate(&object, &destroyed, CountDestruction, 1,
                                 cudaUserObjectNoDestructorSync));
  EXPECT_OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  EXPECT_THAT(destroyed == 0);
  EXPECT_OK(cudaGraphDestroy(graph));
}

constexpr Rule kRules[] = {
    {"graphs can be built by hand", GraphsCanBeBuiltByHand},
    {"clones know their originals", ClonesKnowTheirOriginals},
    {"updates need the same topology", UpdatesNeedTheSameTopology},
    {"host nodes run in order", HostNodesRunInOrder},
    {"allocations belong to the graph", AllocationsBelongToTheGraph},
    {"external events are nodes", ExternalEventsAreNodes},
    {"user objects live as long as their graph", UserObjectsLiveAsLongAsTheirGraph},
};

}  // namespace

std::span<const Rule> GraphRules() {
  return kRules;
}

}  // namespace conformance
