// Stream capture: calls that become nodes, and calls that are forbidden meanwhile.

#include <algorithm>
#include <utility>

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_graphs.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {

Error ProcessGraphs::BeginCapture(void* handle, CaptureMode mode, void* graph_handle,
                                  Dependencies after) {
  if (mode < CaptureMode::kGlobal || mode > CaptureMode::kRelaxed)
    return Error::kInvalidValue;
  ProcessGpu::Lock lock(gpu_.mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(gpu_.Begin(&device));
  Stream* const stream = gpu_.lanes_.Find(handle, device);
  if (stream == nullptr)
    return Error::kInvalidHandle;
  if (stream->legacy)
    return Error::kStreamCaptureUnsupported;
  if (stream->capture != nullptr)
    return Error::kIllegalState;
  Graph* graph = nullptr;
  if (graph_handle != nullptr) {
    graph = FindGraph(graph_handle);
    if (graph == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(CheckDependencies(graph, after));
  } else {
    auto made = std::make_unique<Graph>();
    graph = made.get();
    graph->handle =
        graphs_.Add(std::make_unique<OwnedGraph>(OwnedGraph{std::move(made), graph}));
  }
  gpu_.channel_->Spend(HostCost::kCreate);
  captures_.Begin(stream, mode, graph, graph_handle == nullptr);
  for (const GraphDependency& dependency : after)
    stream->captured_after.push_back(FindNode(dependency.node));
  return Error::kSuccess;
}

Error ProcessGraphs::EndCapture(void* handle, void** graph) {
  if (graph == nullptr)
    return Error::kInvalidValue;
  ProcessGpu::Lock lock(gpu_.mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(gpu_.Begin(&device));
  const Stream* const stream = gpu_.lanes_.Find(handle, device);
  if (stream == nullptr)
    return Error::kInvalidHandle;
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
  gpu_.channel_->Spend(HostCost::kCreate);
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
    DropGraph(*graph);
  *graph = nullptr;
  return error;
}

Error ProcessGraphs::GetCaptureInfo(void* handle, CaptureInfo* info) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(gpu_.Begin(&device));
  const Stream* const stream = gpu_.lanes_.Find(handle, device);
  if (stream == nullptr)
    return Error::kInvalidHandle;
  gpu_.channel_->Spend(HostCost::kAttribute);
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
    capture->told_nodes.push_back(HandleOf(node));
  capture->told_edges.assign(capture->told_nodes.size(), {});
  info->nodes = capture->told_nodes.data();
  info->edges = capture->told_edges.data();
  info->count = capture->told_nodes.size();
  return Error::kSuccess;
}

Error ProcessGraphs::UpdateCapture(void* handle, Dependencies after, bool replace) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(gpu_.Begin(&device));
  Stream* const stream = gpu_.lanes_.Find(handle, device);
  if (stream == nullptr)
    return Error::kInvalidHandle;
  if (stream->capture == nullptr)
    return Error::kIllegalState;
  VRANK_RETURN_IF_FAILED(captures_.CheckUse(*stream));
  VRANK_RETURN_IF_FAILED(CheckDependencies(stream->capture->graph, after));
  gpu_.channel_->Spend(HostCost::kAttribute);
  if (replace)
    stream->captured_after.clear();
  std::vector<GraphNode*> nodes;
  for (const GraphDependency& dependency : after)
    nodes.push_back(FindNode(dependency.node));
  return captures_.Join(stream, stream->capture, nodes);
}

CaptureMode ProcessGraphs::ExchangeCaptureMode(CaptureMode mode) {
  return static_cast<CaptureMode>(
      std::exchange(ThisThread().capture_mode, static_cast<int>(mode)));
}

// --- Calls of the program while streams are captured ---------------------------------

Error ProcessGraphs::CheckCopy(Stream* stream, bool asynchronous) {
  if (captures_.empty() || asynchronous)
    return Error::kSuccess;
  if (stream->capture != nullptr)
    return Captures::Refuse(stream->capture, Error::kStreamCaptureUnsupported);
  return captures_.CheckSafe();
}

Error ProcessGraphs::CheckWait(Stream* stream) {
  if (captures_.empty())
    return Error::kSuccess;
  if (stream->capture != nullptr)
    return Captures::Refuse(stream->capture, Error::kStreamCaptureUnsupported);
  VRANK_RETURN_IF_FAILED(captures_.CheckUse(*stream));
  return captures_.CheckSafe();
}

Error ProcessGraphs::CheckDeviceWait(int device) {
  if (captures_.empty())
    return Error::kSuccess;
  VRANK_RETURN_IF_FAILED(captures_.CheckDevice(device));
  return captures_.CheckSafe();
}

Error ProcessGraphs::CheckQuestion(const Event& event) {
  if (event.capture != 0)
    return Captures::Refuse(captures_.Find(event.capture), Error::kCapturedEvent);
  return CheckSafe();
}

Error ProcessGraphs::Capture(Stream* stream, GraphNodeContent content) {
  gpu_.channel_->Spend(HostCost::kGraphNode);
  TellMade(captures_.Add(stream, std::move(content)));
  return Error::kSuccess;
}

Error ProcessGraphs::CaptureGemm(Stream* stream, const GemmLaunch& launch) {
  GemmContent content{launch, {launch.outputs, launch.outputs + launch.output_count}};
  content.launch.outputs = content.outputs.data();
  return Capture(stream, std::move(content));
}

Error ProcessGraphs::CaptureWait(Stream* stream, const Event& event, void* handle,
                                 bool external) {
  if (stream->capture != nullptr && external)
    return Capture(stream, EventWaitParameters{handle});
  gpu_.channel_->Spend(HostCost::kStreamWait);
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

Error ProcessGraphs::CaptureRecord(Stream* stream, Event* event, void* handle,
                                   bool external) {
  if (external)
    return Capture(stream, EventRecordParameters{handle});
  gpu_.channel_->Spend(HostCost::kEventRecord);
  event->capture = stream->capture->id;
  event->captured_after = stream->captured_after;
  return Error::kSuccess;
}

void ProcessGraphs::CaptureJoin(Stream* waiting, Stream* before) {
  if (before->capture != nullptr) {
    // A merge invalidates both captures, and so the library's call fails.
    [[maybe_unused]] const Error joined =
        captures_.Join(waiting, before->capture, before->captured_after);
  } else {
    waiting->capture->invalidated = true;
  }
}

void ProcessGraphs::ForgetStream(Stream* stream) {
  vrank::gpu::Capture* const capture = stream->capture;
  Graph* const graph =
      capture->origin == stream && capture->owns_graph ? capture->graph : nullptr;
  captures_.Forget(stream);
  if (graph != nullptr)
    DropGraph(graph->handle);
}

// --- VirtualGpu: libnccl
// ---------------------------------------------------------------

void ProcessGpu::Hold() {
  mutex_.lock();
  ++ThisThread().calls;
}

void ProcessGpu::LetGo() {
  --ThisThread().calls;
  mutex_.unlock();
}

uint64_t ProcessGpu::CaptureOf(VirtualGpu::Stream stream) {
  Lock lock(mutex_);
  const Stream* const found = lanes_.FindLane(stream.lane);
  return found == nullptr || found->capture == nullptr ? 0 : found->capture->id;
}

bool ProcessGpu::Capture(VirtualGpu::Stream stream,
                         std::shared_ptr<CapturedWork> work) {
  Lock lock(mutex_);
  Stream* const found = lanes_.FindLane(stream.lane);
  return found != nullptr && found->capture != nullptr &&
         graphs_.CheckUse(*found) == Error::kSuccess &&
         graphs_.Capture(found, std::move(work)) == Error::kSuccess;
}

}  // namespace vrank::gpu
