#include "virtual_gpu/core/graph_capture.h"

#include <memory>
#include <utility>
#include <vector>

namespace vrank::gpu {

Error GraphCapture::Begin(Stream* stream, CaptureMode mode, void* graph_handle,
                          Graphs::Dependencies after) {
  if (stream->legacy)
    return Error::kStreamCaptureUnsupported;
  if (stream->capture != nullptr)
    return Error::kIllegalState;
  Graph* graph = nullptr;
  if (graph_handle != nullptr) {
    graph = table_.FindGraph(graph_handle);
    if (graph == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(table_.CheckDependencies(graph, after));
  } else {
    graph = table_.Add(std::make_unique<Graph>());
  }
  channel_->Spend(HostCost::kCreate);
  captures_.Begin(stream, mode, graph, graph_handle == nullptr);
  for (const GraphDependency& dependency : after)
    stream->captured_after.push_back(table_.FindNode(dependency.node));
  return Error::kSuccess;
}

Error GraphCapture::End(Stream* stream, void** graph) {
  vrank::gpu::Capture* const capture = stream->capture;
  if (capture == nullptr)
    return Error::kIllegalState;
  // What ends it wrongly ends it all the same, or breaks it (driver 580.159).
  if (capture->origin != stream) {
    capture->invalidated = true;
    return Error::kStreamCaptureUnmatched;
  }
  const bool wrong_thread = capture->mode != CaptureMode::kRelaxed &&
                            capture->thread != Captures::ThisThreadNumber();
  channel_->Spend(HostCost::kCreate);
  const Error error = capture->invalidated            ? Error::kStreamCaptureInvalidated
                      : wrong_thread                  ? Error::kStreamCaptureWrongThread
                      : !Captures::IsJoined(*capture) ? Error::kStreamCaptureUnjoined
                                                      : Error::kSuccess;
  *graph = capture->graph->handle;
  const bool owned = capture->owns_graph;
  captures_.End(capture);
  if (error == Error::kSuccess)
    return error;
  if (owned)
    table_.Drop(*graph);
  *graph = nullptr;
  return error;
}

Error GraphCapture::GetInfo(Stream* stream, CaptureInfo* info) {
  channel_->Spend(HostCost::kAttribute);
  *info = {};
  // "The blocking stream capture is not invalidated" by this question.
  if (stream->legacy && captures_.ForbidsLegacy(stream->device))
    return Error::kStreamCaptureImplicit;
  vrank::gpu::Capture* const capture = stream->capture;
  if (capture == nullptr)
    return Error::kSuccess;
  info->status =
      capture->invalidated ? CaptureStatus::kInvalidated : CaptureStatus::kActive;
  info->id = capture->id;
  if (capture->invalidated)
    return Error::kSuccess;
  info->graph = capture->graph->handle;
  capture->told_nodes.clear();
  for (GraphNode* node : stream->captured_after)
    capture->told_nodes.push_back(table_.HandleOf(node));
  capture->told_edges.assign(capture->told_nodes.size(), {});
  info->nodes = capture->told_nodes.data();
  info->edges = capture->told_edges.data();
  info->count = capture->told_nodes.size();
  return Error::kSuccess;
}

Error GraphCapture::Update(Stream* stream, Graphs::Dependencies after, bool replace) {
  if (stream->capture == nullptr)
    return Error::kIllegalState;
  VRANK_RETURN_IF_FAILED(captures_.CheckUse(*stream));
  VRANK_RETURN_IF_FAILED(table_.CheckDependencies(stream->capture->graph, after));
  channel_->Spend(HostCost::kAttribute);
  if (replace)
    stream->captured_after.clear();
  std::vector<GraphNode*> nodes;
  for (const GraphDependency& dependency : after)
    nodes.push_back(table_.FindNode(dependency.node));
  return captures_.Join(stream, stream->capture, nodes);
}

Error GraphCapture::Capture(Stream* stream, GraphNodeContent content) {
  channel_->Spend(HostCost::kGraphNode);
  notes_.Made(captures_.Add(stream, std::move(content)));
  return Error::kSuccess;
}

Error GraphCapture::CaptureGemm(Stream* stream, const GemmLaunch& launch) {
  GemmContent content{launch, {launch.outputs, launch.outputs + launch.output_count}};
  content.launch.outputs = content.outputs.data();
  return Capture(stream, std::move(content));
}

Error GraphCapture::CaptureWait(Stream* stream, const Event& event, void* handle,
                                bool external) {
  if (stream->capture != nullptr && external)
    return Capture(stream, EventWaitParameters{handle});
  channel_->Spend(HostCost::kStreamWait);
  if (event.capture == 0) {
    if (!event.recorded)
      return Error::kSuccess;
    return Captures::Refuse(stream->capture, Error::kStreamCaptureIsolation);
  }
  vrank::gpu::Capture* const capture = captures_.Find(event.capture);
  // What was captured is in a graph by now, and nothing that could be waited for.
  if (capture == nullptr)
    return Captures::Refuse(stream->capture, Error::kStreamCaptureIsolation);
  if (capture->invalidated)
    return Captures::Refuse(stream->capture, Error::kStreamCaptureInvalidated);
  if (stream->legacy)
    return Captures::Refuse(capture, Error::kStreamCaptureImplicit);
  return captures_.Join(stream, capture, event.captured_after);
}

Error GraphCapture::CaptureRecord(Stream* stream, Event* event, void* handle,
                                  bool external) {
  if (external)
    return Capture(stream, EventRecordParameters{handle});
  channel_->Spend(HostCost::kEventRecord);
  event->capture = stream->capture->id;
  event->captured_after = stream->captured_after;
  return Error::kSuccess;
}

Error GraphCapture::CaptureLibraryWork(Stream* stream,
                                       std::shared_ptr<CapturedWork> work) {
  VRANK_RETURN_IF_FAILED(captures_.CheckUse(*stream));
  return Capture(stream, std::move(work));
}

void GraphCapture::CaptureJoin(Stream* waiting, Stream* before) {
  if (before->capture != nullptr) {
    // A merge invalidates both captures, and so the library's call fails.
    [[maybe_unused]] const Error joined =
        captures_.Join(waiting, before->capture, before->captured_after);
  } else {
    waiting->capture->invalidated = true;
  }
}

void GraphCapture::ForgetStream(Stream* stream) {
  vrank::gpu::Capture* const capture = stream->capture;
  Graph* const graph =
      capture->origin == stream && capture->owns_graph ? capture->graph : nullptr;
  captures_.Forget(stream);
  if (graph != nullptr)
    table_.Drop(graph->handle);
}

Error GraphCapture::CaptureAllocation(Stream* stream, uint64_t bytes, void** address) {
  AllocationParameters parameters{.device = stream->device, .bytes = bytes};
  VRANK_RETURN_IF_FAILED(allocations_.TakeAddress(&parameters));
  *address = parameters.address;
  return Capture(stream, parameters);
}

Error GraphCapture::CaptureFree(Stream* stream, void* address) {
  VRANK_RETURN_IF_FAILED(allocations_.CheckFreed(address));
  return Capture(stream, FreeParameters{address});
}

}  // namespace vrank::gpu
