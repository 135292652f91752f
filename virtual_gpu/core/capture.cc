// The rules of stream capture (CUDA programming guide, "Creating a Graph Using Stream
// Capture"; CUDA runtime API, cudaThreadExchangeStreamCaptureMode).

#include "virtual_gpu/core/capture.h"

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {

uint64_t Captures::ThisThreadNumber() {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

Capture* Captures::Begin(Stream* origin, CaptureMode mode, Graph* graph,
                         bool owns_graph) {
  auto made = std::make_unique<Capture>();
  made->id = next_id_++;
  made->mode = mode;
  made->thread = ThisThreadNumber();
  made->graph = graph;
  made->owns_graph = owns_graph;
  made->origin = origin;
  made->streams.push_back(origin);
  origin->capture = made.get();
  Capture* const raw = made.get();
  captures_[raw->id] = std::move(made);
  return raw;
}

Capture* Captures::Find(uint64_t id) const {
  const auto found = captures_.find(id);
  return found == captures_.end() ? nullptr : found->second.get();
}

bool Captures::IsCaptured(const Graph* graph) const {
  return std::any_of(captures_.begin(), captures_.end(),
                     [&](const auto& entry) { return entry.second->graph == graph; });
}

void Captures::End(Capture* capture) {
  for (Stream* stream : capture->streams) {
    stream->capture = nullptr;
    stream->captured_after.clear();
  }
  captures_.erase(capture->id);
}

GraphNode* Captures::Add(Stream* stream, GraphNodeContent content) {
  GraphNode* const node = stream->capture->graph->Add(std::move(content));
  for (GraphNode* before : stream->captured_after)
    Graph::Connect(before, node, {});
  stream->captured_after = {node};
  return node;
}

Error Captures::Join(Stream* stream, Capture* capture,
                     std::span<GraphNode* const> after) {
  if (stream->capture == nullptr) {
    stream->capture = capture;
    capture->streams.push_back(stream);
  } else if (stream->capture != capture) {
    capture->invalidated = true;
    return Refuse(stream->capture, Error::kStreamCaptureMerge);
  }
  for (GraphNode* node : after) {
    std::vector<GraphNode*>& known = stream->captured_after;
    if (std::find(known.begin(), known.end(), node) == known.end())
      known.push_back(node);
  }
  return Error::kSuccess;
}

bool Captures::IsJoined(const Capture& capture) {
  // What the origin's last nodes wait for, directly or not.
  std::vector<const GraphNode*> open(capture.origin->captured_after.begin(),
                                     capture.origin->captured_after.end());
  std::unordered_set<const GraphNode*> covered(open.begin(), open.end());
  while (!open.empty()) {
    const GraphNode* const node = open.back();
    open.pop_back();
    for (const GraphLink& link : node->before)
      if (covered.insert(link.node).second)
        open.push_back(link.node);
  }
  return std::all_of(
      capture.streams.begin(), capture.streams.end(), [&](const Stream* stream) {
        return std::all_of(
            stream->captured_after.begin(), stream->captured_after.end(),
            [&](const GraphNode* node) { return covered.contains(node); });
      });
}

void Captures::Forget(Stream* stream) {
  Capture* const capture = stream->capture;
  if (capture == nullptr)
    return;
  capture->invalidated = true;
  std::erase(capture->streams, stream);
  stream->capture = nullptr;
  if (capture->origin == stream)
    End(capture);
}

void Captures::Forget(const GraphNode* node) {
  for (const auto& [id, capture] : captures_)
    for (Stream* stream : capture->streams)
      std::erase(stream->captured_after, node);
}

bool Captures::ForbidsLegacy(int device) const {
  return std::any_of(captures_.begin(), captures_.end(), [&](const auto& entry) {
    const std::vector<Stream*>& streams = entry.second->streams;
    return std::any_of(streams.begin(), streams.end(), [&](const Stream* stream) {
      return stream->blocking && stream->device == device;
    });
  });
}

Error Captures::CheckUse(const Stream& stream) {
  if (stream.capture != nullptr)
    return stream.capture->invalidated ? Error::kStreamCaptureInvalidated
                                       : Error::kSuccess;
  if (!stream.legacy)
    return Error::kSuccess;
  Error error = Error::kSuccess;
  for (const auto& [id, capture] : captures_)
    for (const Stream* captured : capture->streams)
      if (captured->blocking && captured->device == stream.device)
        error = Refuse(capture.get(), Error::kStreamCaptureImplicit);
  return error;
}

Error Captures::CheckSafe() {
  const auto mode = static_cast<CaptureMode>(ThisThread().capture_mode);
  if (mode == CaptureMode::kRelaxed)
    return Error::kSuccess;
  Error error = Error::kSuccess;
  for (const auto& [id, capture] : captures_) {
    const bool own = capture->thread == ThisThreadNumber();
    const bool forbidden =
        own ? capture->mode != CaptureMode::kRelaxed
            : mode == CaptureMode::kGlobal && capture->mode == CaptureMode::kGlobal;
    if (forbidden)
      error = Refuse(capture.get(), Error::kStreamCaptureUnsupported);
  }
  return error;
}

Error Captures::CheckDevice(int device) {
  Error error = Error::kSuccess;
  for (const auto& [id, capture] : captures_)
    for (const Stream* stream : capture->streams)
      if (stream->device == device)
        error = Refuse(capture.get(), Error::kStreamCaptureUnsupported);
  return error;
}

Error Captures::CheckCopy(Stream* stream, bool asynchronous) {
  if (empty() || asynchronous)
    return Error::kSuccess;
  if (stream->capture != nullptr)
    return Refuse(stream->capture, Error::kStreamCaptureUnsupported);
  return CheckSafe();
}

Error Captures::CheckWait(Stream* stream) {
  if (empty())
    return Error::kSuccess;
  if (stream->capture != nullptr)
    return Refuse(stream->capture, Error::kStreamCaptureUnsupported);
  VRANK_RETURN_IF_FAILED(CheckUse(*stream));
  return CheckSafe();
}

Error Captures::CheckDeviceWait(int device) {
  if (empty())
    return Error::kSuccess;
  VRANK_RETURN_IF_FAILED(CheckDevice(device));
  return CheckSafe();
}

Error Captures::CheckEventWait(const Event& event) {
  if (event.capture != 0)
    return Refuse(Find(event.capture), Error::kCapturedEvent);
  return CheckSafe();
}

}  // namespace vrank::gpu
