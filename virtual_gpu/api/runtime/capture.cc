// cudart, chapter "Stream management": capture.

#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/graph_parameters.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::CaptureInfo;
using vrank::gpu::CaptureMode;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::Leave;
using vrank::gpu::PerThread;
using vrank::gpu::ReadDependencies;

VRANK_CUDART cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                                cudaStreamCaptureMode mode) {
  return Call([&](Gpu& gpu) {
    return gpu.graphs().BeginCapture(stream, static_cast<CaptureMode>(mode), nullptr,
                                     {});
  });
}
VRANK_CUDART cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream,
                                                     cudaStreamCaptureMode mode) {
  return Alias([&] { return cudaStreamBeginCapture(PerThread(stream), mode); });
}

VRANK_CUDART cudaError_t cudaStreamBeginCaptureToGraph(
    cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode) {
  return Call([&](Gpu& gpu) {
    if (graph == nullptr)
      return Error::kInvalidValue;
    return gpu.graphs().BeginCapture(stream, static_cast<CaptureMode>(mode), graph,
                                     ReadDependencies(dependencies, edges, count));
  });
}
VRANK_CUDART cudaError_t cudaStreamBeginCaptureToGraph_ptsz(
    cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode) {
  return Alias([&] {
    return cudaStreamBeginCaptureToGraph(PerThread(stream), graph, dependencies, edges,
                                         count, mode);
  });
}

VRANK_CUDART cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return Call([&](Gpu& gpu) {
    return gpu.graphs().EndCapture(stream, reinterpret_cast<void**>(graph));
  });
}
VRANK_CUDART cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream,
                                                   cudaGraph_t* graph) {
  return Alias([&] { return cudaStreamEndCapture(PerThread(stream), graph); });
}

VRANK_CUDART cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                               cudaStreamCaptureStatus* status) {
  return Call([&](Gpu& gpu) {
    CaptureInfo info;
    if (status == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.graphs().GetCaptureInfo(stream, &info));
    *status = static_cast<cudaStreamCaptureStatus>(info.status);
    return Error::kSuccess;
  });
}
VRANK_CUDART cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream,
                                                    cudaStreamCaptureStatus* status) {
  return Alias([&] { return cudaStreamIsCapturing(PerThread(stream), status); });
}

VRANK_CUDART cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
    cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
    const cudaGraphEdgeData** edges, size_t* count) {
  return Call([&](Gpu& gpu) {
    CaptureInfo info;
    if (status == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.graphs().GetCaptureInfo(stream, &info));
    *status = static_cast<cudaStreamCaptureStatus>(info.status);
    if (id != nullptr)
      *id = info.id;
    if (graph != nullptr)
      *graph = static_cast<cudaGraph_t>(info.graph);
    if (dependencies != nullptr)
      *dependencies = reinterpret_cast<const cudaGraphNode_t*>(info.nodes);
    if (edges != nullptr)
      *edges = reinterpret_cast<const cudaGraphEdgeData*>(info.edges);
    if (count != nullptr)
      *count = info.count;
    return Error::kSuccess;
  });
}
VRANK_CUDART cudaError_t cudaStreamGetCaptureInfo_ptsz(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
    cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
    const cudaGraphEdgeData** edges, size_t* count) {
  return Alias([&] {
    return cudaStreamGetCaptureInfo(PerThread(stream), status, id, graph, dependencies,
                                    edges, count);
  });
}

VRANK_CUDART cudaError_t cudaStreamUpdateCaptureDependencies(
    cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
    size_t count, unsigned flags) {
  if (flags > cudaStreamSetCaptureDependencies)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    return gpu.graphs().UpdateCapture(stream,
                                      ReadDependencies(dependencies, edges, count),
                                      flags == cudaStreamSetCaptureDependencies);
  });
}
VRANK_CUDART cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(
    cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
    size_t count, unsigned flags) {
  return Alias([&] {
    return cudaStreamUpdateCaptureDependencies(PerThread(stream), dependencies, edges,
                                               count, flags);
  });
}

VRANK_CUDART cudaError_t
cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr || *mode > cudaStreamCaptureModeRelaxed)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    *mode = static_cast<cudaStreamCaptureMode>(
        gpu.graphs().ExchangeCaptureMode(static_cast<CaptureMode>(*mode)));
    return Error::kSuccess;
  });
}
