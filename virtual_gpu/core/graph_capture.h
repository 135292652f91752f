// Stream capture: the calls that begin and end it, and calls of the program that become
// nodes meanwhile.
//
// What captures forbid, and which are under way, is capture.h's.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_CAPTURE_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_CAPTURE_H_

#include <cstdint>
#include <memory>

#include "base/guest/channel.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/core/capture.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/graph_allocations.h"
#include "virtual_gpu/core/graph_notes.h"
#include "virtual_gpu/core/graph_table.h"
#include "virtual_gpu/core/graphs.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

class GraphCapture {
 public:
  GraphCapture(Channel* channel, Captures& captures, GraphTable& table,
               GraphAllocations& allocations, GraphNotes& notes)
      : channel_(channel),
        captures_(captures),
        table_(table),
        allocations_(allocations),
        notes_(notes) {}

  // --- As Graphs'
  // -------------------------------------------------------------------
  Error Begin(Stream* stream, CaptureMode mode, void* graph_handle,
              Graphs::Dependencies after);
  Error End(Stream* stream, void** graph);
  Error GetInfo(Stream* stream, CaptureInfo* info);
  Error Update(Stream* stream, Graphs::Dependencies after, bool replace);

  // --- What a stream that is captured was asked to do: added to the graph
  // -------------
  Error Capture(Stream* stream, GraphNodeContent content);
  Error CaptureGemm(Stream* stream, const GemmLaunch& launch);
  Error CaptureWait(Stream* stream, const Event& event, void* handle, bool external);
  Error CaptureRecord(Stream* stream, Event* event, void* handle, bool external);
  Error CaptureAllocation(Stream* stream, uint64_t bytes, void** address);
  Error CaptureFree(Stream* stream, void* address);
  Error CaptureLibraryWork(Stream* stream, std::shared_ptr<CapturedWork> work);
  void CaptureJoin(Stream* waiting, Stream* before);
  // The stream, which is captured, is destroyed.
  void ForgetStream(Stream* stream);

 private:
  Channel* const channel_;
  Captures& captures_;
  GraphTable& table_;
  GraphAllocations& allocations_;
  GraphNotes& notes_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_CAPTURE_H_
