// CUDA runtime API, "Stream management" (capture); CUDA programming guide, "Creating a
// Graph Using Stream Capture".

#include <thread>

#include "tests/virtual_gpu/conformance/graph_support.h"

namespace conformance {
namespace {

// Ends the capture, which must fail so, and leave no graph.
void ExpectEndFails(cudaError_t error, cudaStream_t stream) {
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(&stream);
  EXPECT_ERROR(error, cudaStreamEndCapture(stream, &graph));
  EXPECT_THAT(graph == nullptr);
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

// cudaStreamEndCapture: "Capture must have been initiated on stream". Ended elsewhere,
// it is invalidated.
void CapturesEndWhereTheyBegan() {
  Stream origin, side;
  Event fork;
  EXPECT_OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
  EXPECT_OK(cudaEventRecord(fork, origin));
  EXPECT_OK(cudaStreamWaitEvent(side, fork, 0));
  cudaGraph_t graph = nullptr;
  EXPECT_ERROR(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(side, &graph));
  ExpectEndFails(cudaErrorStreamCaptureInvalidated, origin);
}

// cudaStreamEndCapture: unless the mode is relaxed it "must be called from the same
// thread". The capture is over all the same.
void CapturesEndOnTheirThread() {
  Stream stream;
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                          cudaStreamCaptureModeRelaxed}) {
    EXPECT_OK(cudaStreamBeginCapture(stream, mode));
    cudaGraph_t graph = nullptr;
    cudaError_t other = cudaSuccess;
    std::thread([&] { other = cudaStreamEndCapture(stream, &graph); }).join();
    EXPECT_THAT(other == (mode == cudaStreamCaptureModeRelaxed
                              ? cudaSuccess
                              : cudaErrorStreamCaptureWrongThread));
    EXPECT_THAT((graph != nullptr) == (mode == cudaStreamCaptureModeRelaxed));
    if (graph != nullptr)
      EXPECT_OK(cudaGraphDestroy(graph));
    EXPECT_ERROR(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
  }
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

// cudaStreamAddCallback: "not supported with cudaStreamBeginCapture and
// cudaStreamEndCapture, unlike cudaLaunchHostFunc".
void CallbacksCannotBeCaptured() {
  Stream stream;
  const auto callback = [](cudaStream_t, cudaError_t, void*) {};
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_ERROR(cudaErrorStreamCaptureUnsupported,
               cudaStreamAddCallback(stream, callback, nullptr, 0));
  ExpectEndFails(cudaErrorStreamCaptureInvalidated, stream);
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
    {"captures end on their thread", CapturesEndOnTheirThread},
    {"capture modes prohibit unsafe calls", ModesProhibitUnsafeCalls},
    {"captures tell what they hold", CapturesTellWhatTheyHold},
    {"callbacks cannot be captured", CallbacksCannotBeCaptured},
};

}  // namespace

std::span<const Rule> CaptureRules() {
  return kRules;
}

}  // namespace conformance
