// libcuda, chapter "Stream management": capture.

#include "virtual_gpu/api/driver/graph_dependencies.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::CallInContext;
using vrank::gpu::CaptureInfo;
using vrank::gpu::CaptureMode;
using vrank::gpu::Error;
using vrank::gpu::PerThread;
using vrank::gpu::ProcessGpu;
using vrank::gpu::ReadDependencies;

namespace {

// The facts of the stream's capture, handed to `take`.
template <typename Take>
CUresult WithInfo(CUstream stream, CUstreamCaptureStatus* status, Take take,
                  const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        CaptureInfo info;
        if (status == nullptr)
          return Error::kInvalidValue;
        VRANK_RETURN_IF_FAILED(gpu.graphs().GetCaptureInfo(stream, &info));
        *status = static_cast<CUstreamCaptureStatus>(info.status);
        take(info);
        return Error::kSuccess;
      },
      api);
}

template <typename To, typename From>
void Store(To* to, From from) {
  if (to != nullptr)
    *to = reinterpret_cast<To>(from);
}

}  // namespace

#undef cuStreamBeginCapture
#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies

VRANK_CUDA CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().BeginCapture(stream, static_cast<CaptureMode>(mode), nullptr,
                                     {});
  });
}
VRANK_CUDA CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream,
                                                 CUstreamCaptureMode mode) {
  return Alias([&] { return cuStreamBeginCapture_v2(PerThread(stream), mode); });
}

VRANK_CUDA CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                const CUgraphNode* dependencies,
                                                const CUgraphEdgeData* edges,
                                                size_t count,
                                                CUstreamCaptureMode mode) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (graph == nullptr)
      return Error::kInvalidValue;
    return gpu.graphs().BeginCapture(stream, static_cast<CaptureMode>(mode), graph,
                                     ReadDependencies(dependencies, edges, count));
  });
}
VRANK_CUDA CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                     const CUgraphNode* dependencies,
                                                     const CUgraphEdgeData* edges,
                                                     size_t count,
                                                     CUstreamCaptureMode mode) {
  return Alias([&] {
    return cuStreamBeginCaptureToGraph(PerThread(stream), graph, dependencies, edges,
                                       count, mode);
  });
}

VRANK_CUDA CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().EndCapture(stream, reinterpret_cast<void**>(graph));
  });
}
VRANK_CUDA CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return Alias([&] { return cuStreamEndCapture(PerThread(stream), graph); });
}

VRANK_CUDA CUresult cuStreamIsCapturing(CUstream stream,
                                        CUstreamCaptureStatus* status) {
  return WithInfo(stream, status, [](const CaptureInfo&) {});
}
VRANK_CUDA CUresult cuStreamIsCapturing_ptsz(CUstream stream,
                                             CUstreamCaptureStatus* status) {
  return Alias([&] { return cuStreamIsCapturing(PerThread(stream), status); });
}

VRANK_CUDA CUresult cuStreamGetCaptureInfo_v3(
    CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
    const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  return WithInfo(stream, status, [&](const CaptureInfo& info) {
    if (id != nullptr)
      *id = info.id;
    Store(graph, info.graph);
    Store(dependencies, info.nodes);
    Store(edges, info.edges);
    if (count != nullptr)
      *count = info.count;
  });
}
VRANK_CUDA CUresult cuStreamGetCaptureInfo_v3_ptsz(
    CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
    const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  return Alias([&] {
    return cuStreamGetCaptureInfo_v3(PerThread(stream), status, id, graph, dependencies,
                                     edges, count);
  });
}

// The forms before edges had data.
VRANK_CUDA CUresult cuStreamGetCaptureInfo_v2(CUstream stream,
                                              CUstreamCaptureStatus* status,
                                              cuuint64_t* id, CUgraph* graph,
                                              const CUgraphNode** dependencies,
                                              size_t* count) {
  return Alias([&] {
    return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr,
                                     count);
  });
}
VRANK_CUDA CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream,
                                                   CUstreamCaptureStatus* status,
                                                   cuuint64_t* id, CUgraph* graph,
                                                   const CUgraphNode** dependencies,
                                                   size_t* count) {
  return Alias([&] {
    return cuStreamGetCaptureInfo_v2(PerThread(stream), status, id, graph, dependencies,
                                     count);
  });
}
VRANK_CUDA CUresult cuStreamGetCaptureInfo(CUstream stream,
                                           CUstreamCaptureStatus* status,
                                           cuuint64_t* id) {
  return Alias([&] {
    return cuStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr,
                                     nullptr);
  });
}
VRANK_CUDA CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream,
                                                CUstreamCaptureStatus* status,
                                                cuuint64_t* id) {
  return Alias([&] { return cuStreamGetCaptureInfo(PerThread(stream), status, id); });
}

VRANK_CUDA CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream,
                                                         CUgraphNode* dependencies,
                                                         const CUgraphEdgeData* edges,
                                                         size_t count, unsigned flags) {
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    return CUDA_ERROR_INVALID_VALUE;
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().UpdateCapture(stream,
                                      ReadDependencies(dependencies, edges, count),
                                      flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  });
}
VRANK_CUDA CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(
    CUstream stream, CUgraphNode* dependencies, const CUgraphEdgeData* edges,
    size_t count, unsigned flags) {
  return Alias([&] {
    return cuStreamUpdateCaptureDependencies_v2(PerThread(stream), dependencies, edges,
                                                count, flags);
  });
}
VRANK_CUDA CUresult cuStreamUpdateCaptureDependencies(CUstream stream,
                                                      CUgraphNode* dependencies,
                                                      size_t count, unsigned flags) {
  return Alias([&] {
    return cuStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count,
                                                flags);
  });
}
VRANK_CUDA CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream,
                                                           CUgraphNode* dependencies,
                                                           size_t count,
                                                           unsigned flags) {
  return Alias([&] {
    return cuStreamUpdateCaptureDependencies(PerThread(stream), dependencies, count,
                                             flags);
  });
}

VRANK_CUDA CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  return Call([&](ProcessGpu& gpu) {
    *mode = static_cast<CUstreamCaptureMode>(
        gpu.graphs().ExchangeCaptureMode(static_cast<CaptureMode>(*mode)));
    return Error::kSuccess;
  });
}
