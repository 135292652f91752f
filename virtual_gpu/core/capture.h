// Stream captures under way, and what CUDA forbids meanwhile.
//
// A capture begins in one stream, its origin. Other streams join it by waiting for an
// event that was recorded in it, and must have been waited for when it ends. What is
// illegal invalidates the captures that it touches: they go on failing until they are
// ended (CUDA programming guide, "Prohibited and Unhandled Operations").
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_CAPTURE_H_
#define VRANK_VIRTUAL_GPU_CORE_CAPTURE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

struct Capture {
  uint64_t id = 0;  // never reused; events refer to it
  CaptureMode mode = CaptureMode::kGlobal;
  uint64_t thread = 0;  // that began it
  Graph* graph = nullptr;
  bool owns_graph = false;  // it was made for this capture
  Stream* origin = nullptr;
  std::vector<Stream*> streams;  // the origin first
  bool invalidated = false;
  // What GetCaptureInfo told last.
  std::vector<void*> told_nodes;
  std::vector<GraphEdgeData> told_edges;
};

class Captures {
 public:
  bool empty() const { return captures_.empty(); }

  Capture* Begin(Stream* origin, CaptureMode mode, Graph* graph, bool owns_graph);
  // The capture under way that has this id, or nullptr.
  Capture* Find(uint64_t id) const;
  // Whether a capture that is under way adds to this graph.
  bool IsCaptured(const Graph* graph) const;
  // Its streams are free again.
  void End(Capture* capture);

  // A node behind what the stream's next one waits for.
  GraphNode* Add(Stream* stream, GraphNodeContent content);
  // The stream's next node waits for these, too. The stream joins the capture where it
  // is in none.
  Error Join(Stream* stream, Capture* capture, std::span<GraphNode* const> after);
  // Whether the origin waits for all that the other streams hold.
  static bool IsJoined(const Capture& capture);

  // The stream is destroyed, a node is.
  void Forget(Stream* stream);
  void Forget(const GraphNode* node);

  // --- What is forbidden; each failure invalidates ----------------------------------
  // Work, or a wait, in a stream.
  Error CheckUse(const Stream& stream);
  // A call that CUDA calls potentially unsafe, on the calling thread.
  Error CheckSafe();
  // A copy or memset, a wait for a stream or a question about it, a wait for all of a
  // device, a wait for an event or a question about it.
  Error CheckCopy(Stream* stream, bool asynchronous);
  Error CheckWait(Stream* stream);
  Error CheckDeviceWait(int device);
  Error CheckEventWait(const Event& event);
  static Error Refuse(Capture* capture, Error error) {
    if (capture != nullptr)
      capture->invalidated = true;
    return error;
  }
  // Blocking streams of the device are captured: its legacy stream must not be used.
  bool ForbidsLegacy(int device) const;

  // Numbers threads in the order in which they first ask.
  static uint64_t ThisThreadNumber();

 private:
  // A wait of the host for all of a device.
  Error CheckDevice(int device);

  std::map<uint64_t, std::unique_ptr<Capture>> captures_;
  uint64_t next_id_ = 1;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_CAPTURE_H_
