// CUDA runtime API, "Graph management" and "Stream management" (capture); CUDA
// programming guide, "CUDA Graphs".

#include <cstring>
#include <thread>
#include <vector>

#include "tests/virtual_gpu/conformance/rule.h"

namespace conformance {
namespace {

constexpr size_t kBytes = 4096;

// Device memory and page-locked host memory, given back at the end.
struct Buffers {
  unsigned char* host = nullptr;
  unsigned char* device = nullptr;
  Buffers() {
    EXPECT_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
    EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
    std::memset(host, 0, kBytes);
  }
  ~Buffers() {
    EXPECT_OK(cudaFreeHost(host));
    EXPECT_OK(cudaFree(device));
  }
};

struct Stream {
  cudaStream_t handle;
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_OK(cudaStreamCreateWithFlags(&handle, flags));
  }
  ~Stream() { EXPECT_OK(cudaStreamDestroy(handle)); }
  operator cudaStream_t() const { return handle; }
};

struct Event {
  cudaEvent_t handle;
  Event() { EXPECT_OK(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  ~Event() { EXPECT_OK(cudaEventDestroy(handle)); }
  operator cudaEvent_t() const { return handle; }
};

// Ends the capture, which must fail so, and leave no graph.
void ExpectEndFails(cudaError_t error, cudaStream_t stream) {
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(&stream);
  EXPECT_ERROR(error, cudaStreamEndCapture(stream, &graph));
  EXPECT_THAT(graph == nullptr);
}

size_t NodesOf(cudaGraph_t graph) {
  size_t count = 0;
  EXPECT_OK(cudaGraphGetNodes(graph, nullptr, &count));
  return count;
}

// cudaStreamBeginCapture: "operations pushed into the stream will not be executed, but
// will instead be captured into a graph".
void CapturedWorkRunsWhenTheGraphIsLaunched() {
  Buffers buffers;
  Stream stream;
  EXPECT_OK(cudaMemset(buffers.device, 1, kBytes));
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_OK(cudaMemsetAsync(buffers.device, 2, kBytes, stream));
  EXPECT_OK(cudaMemcpyAsync(buffers.host, buffers.device, kBytes,
                            cudaMemcpyDeviceToHost, stream));
  cudaGraph_t graph = nullptr;
  EXPECT_OK(cudaStreamEndCapture(stream, &graph));
  EXPECT_THAT(NodesOf(graph) == 2);
  EXPECT_THAT(buffers.host[0] == 0);
  cudaGraphExec_t exec = nullptr;
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int launch = 0; launch < 3; ++launch) {
    buffers.host[kBytes - 1] = 0;
    EXPECT_OK(cudaGraphLaunch(exec, stream));
    EXPECT_OK(cudaStreamSynchronize(stream));
    EXPECT_THAT(buffers.host[0] == 2 && buffers.host[kBytes - 1] == 2);
  }
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphDestroy(graph));
}

// "Cross-stream Dependencies and Events": an event recorded in a captured stream
// "places the waiting stream into capture mode"; it must be joined to the origin.
void StreamsJoinACaptureByEvents() {
  Buffers buffers;
  Stream origin, side;
  Event fork, join;
  EXPECT_OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  EXPECT_OK(cudaEventRecord(fork, origin));
  EXPECT_OK(cudaStreamWaitEvent(side, fork, 0));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_OK(cudaStreamIsCapturing(side, &status));
  EXPECT_THAT(status == cudaStreamCaptureStatusActive);
  EXPECT_OK(cudaMemsetAsync(buffers.device, 3, kBytes / 2, side));
  EXPECT_OK(cudaMemsetAsync(buffers.device + kBytes / 2, 4, kBytes / 2, origin));
  EXPECT_OK(cudaEventRecord(join, side));
  EXPECT_OK(cudaStreamWaitEvent(origin, join, 0));
  cudaGraph_t graph = nullptr;
  EXPECT_OK(cudaStreamEndCapture(origin, &graph));
  EXPECT_OK(cudaStreamIsCapturing(side, &status));
  EXPECT_THAT(status == cudaStreamCaptureStatusNone);
  size_t roots = 0;
  EXPECT_OK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  EXPECT_THAT(NodesOf(graph) == 2 && roots == 2);
  EXPECT_OK(cudaGraphDestroy(graph));
}

// cudaErrorStreamCaptureUnjoined: "the capture sequence contains a fork that was not
// joined to the primary stream".
void ForksMustBeJoined() {
  Buffers buffers;
  Stream origin, side;
  Event fork;
  EXPECT_OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  EXPECT_OK(cudaEventRecord(fork, origin));
  EXPECT_OK(cudaStreamWaitEvent(side, fork, 0));
  EXPECT_OK(cudaMemsetAsync(buffers.device, 3, kBytes, side));
  ExpectEndFails(cudaErrorStreamCaptureUnjoined, origin);
}

// cudaErrorStreamCaptureMerge: "a merge of two independent capture sequences".
void CapturesDoNotMerge() {
  Stream a, b;
  Event event;
  EXPECT_OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  EXPECT_OK(cudaStreamBeginCapture(b, cudaStreamCaptureModeGlobal));
  EXPECT_OK(cudaEventRecord(event, a));
  EXPECT_ERROR(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(b, event, 0));
  ExpectEndFails(cudaErrorStreamCaptureInvalidated, a);
  ExpectEndFails(cudaErrorStreamCaptureInvalidated, b);
}

// cudaErrorStreamCaptureIsolation: "a dependency would have been created which crosses
// the capture sequence boundary".
void DependenciesDoNotCrossTheBoundary() {
  Stream stream;
  Event outside;
  EXPECT_OK(cudaEventRecord(outside, stream));
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_ERROR(cudaErrorStreamCaptureIsolation,
               cudaStreamWaitEvent(stream, outside, 0));
  ExpectEndFails(cudaErrorStreamCaptureInvalidated, stream);
}

// "Prohibited and Unhandled Operations": "It is invalid to synchronize or query the
// execution status of a stream which is being captured or a captured event".
void CapturedStreamsAndEventsHaveNoStatus() {
  Stream stream;
  Event event;
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_ERROR(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
  ExpectEndFails(cudaErrorStreamCaptureInvalidated, stream);
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_ERROR(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(stream));
  ExpectEndFails(cudaErrorStreamCaptureInvalidated, stream);
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_OK(cudaEventRecord(event, stream));
  EXPECT_ERROR(cudaErrorCapturedEvent, cudaEventQuery(event));
  ExpectEndFails(cudaErrorStreamCaptureInvalidated, stream);
}

// cudaErrorStreamCaptureImplicit: "a disallowed implicit dependency on a current
// capture sequence from cudaStreamLegacy".
void LegacyStreamIsForbiddenBesideBlockingCaptures() {
  Buffers buffers;
  Stream blocking(cudaStreamDefault);
  EXPECT_OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  EXPECT_ERROR(cudaErrorStreamCaptureImplicit,
               cudaMemsetAsync(buffers.device, 1, kBytes, cudaStreamLegacy));
  ExpectEndFails(cudaErrorStreamCaptureInvalidated, blocking);
}

// cudaStreamBeginCapture: "Capture must not be initiated on cudaStreamLegacy".
void CapturesBeginOnOtherStreams() {
  EXPECT_ERROR(cudaErrorStreamCaptureUnsupported,
               cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal));
}

// cudaStreamEndCapture: "Capture must have been initiated on stream"; unless the mode
// is relaxed it "must be called from the same thread".
void CapturesEndWhereTheyBegan() {
  Stream origin, side;
  Event fork;
  EXPECT_OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
  EXPECT_OK(cudaEventRecord(fork, origin));
  EXPECT_OK(cudaStreamWaitEvent(side, fork, 0));
  cudaGraph_t graph = nullptr;
  EXPECT_ERROR(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(side, &graph));
  cudaError_t other = cudaSuccess;
  std::thread([&] { other = cudaStreamEndCapture(origin, &graph); }).join();
  EXPECT_THAT(other == cudaErrorStreamCaptureWrongThread);
  graph = nullptr;
  [[maybe_unused]] const cudaError_t ended = cudaStreamEndCapture(origin, &graph);
  if (graph != nullptr)
    EXPECT_OK(cudaGraphDestroy(graph));
}

// cudaThreadExchangeStreamCaptureMode: in relaxed mode "the local thread is not
// prohibited from potentially unsafe API calls"; cudaMalloc is one.
void ModesProhibitUnsafeCalls() {
  Stream stream;
  void* memory = nullptr;
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_ERROR(cudaErrorStreamCaptureUnsupported, cudaMalloc(&memory, kBytes));
  ExpectEndFails(cudaErrorStreamCaptureInvalidated, stream);
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_THAT(mode == cudaStreamCaptureModeGlobal);
  EXPECT_OK(cudaMalloc(&memory, kBytes));
  EXPECT_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_THAT(mode == cudaStreamCaptureModeRelaxed);
  cudaGraph_t graph = nullptr;
  EXPECT_OK(cudaStreamEndCapture(stream, &graph));
  EXPECT_OK(cudaGraphDestroy(graph));
  EXPECT_OK(cudaFree(memory));
}

// cudaStreamGetCaptureInfo: the graph, "an id to identify the capture sequence", and
// the nodes that the next one depends on.
void CapturesTellWhatTheyHold() {
  Buffers buffers;
  Stream stream;
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_OK(cudaMemsetAsync(buffers.device, 1, kBytes, stream));
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  EXPECT_OK(
      cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count));
  EXPECT_THAT(status == cudaStreamCaptureStatusActive && id != 0 && graph != nullptr);
  EXPECT_THAT(count == 1 && nodes != nullptr);
  cudaGraphNodeType type{};
  EXPECT_OK(cudaGraphNodeGetType(nodes[0], &type));
  EXPECT_THAT(type == cudaGraphNodeTypeMemset);
  cudaGraph_t ended = nullptr;
  EXPECT_OK(cudaStreamEndCapture(stream, &ended));
  EXPECT_THAT(ended == graph);
  EXPECT_OK(cudaGraphDestroy(graph));
}

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
  unsigned long long used = 1;
  EXPECT_OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  EXPECT_THAT(used == 0);
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
    {"captured work runs when the graph is launched",
     CapturedWorkRunsWhenTheGraphIsLaunched},
    {"streams join a capture by events", StreamsJoinACaptureByEvents},
    {"forks must be joined", ForksMustBeJoined},
    {"captures do not merge", CapturesDoNotMerge},
    {"dependencies do not cross a capture's boundary",
     DependenciesDoNotCrossTheBoundary},
    {"captured streams and events have no status",
     CapturedStreamsAndEventsHaveNoStatus},
    {"the legacy stream is forbidden beside blocking captures",
     LegacyStreamIsForbiddenBesideBlockingCaptures},
    {"captures begin on other streams than the legacy one",
     CapturesBeginOnOtherStreams},
    {"captures end where they began", CapturesEndWhereTheyBegan},
    {"capture modes prohibit unsafe calls", ModesProhibitUnsafeCalls},
    {"captures tell what they hold", CapturesTellWhatTheyHold},
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
