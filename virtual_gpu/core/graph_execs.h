// Executable graphs: making them, and changing them afterwards.
//
// Owns them (graph_exec.h).
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_EXECS_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_EXECS_H_

#include <cstdint>

#include "base/guest/channel.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/graph_allocations.h"
#include "virtual_gpu/core/graph_exec.h"
#include "virtual_gpu/core/graph_launcher.h"
#include "virtual_gpu/core/graph_notes.h"
#include "virtual_gpu/core/graph_table.h"
#include "virtual_gpu/core/graph_types.h"
#include "virtual_gpu/core/handle_table.h"
#include "virtual_gpu/core/kernel_effects.h"
#include "virtual_gpu/core/node_contents.h"
#include "virtual_gpu/core/user_objects.h"

namespace vrank::gpu {

class GraphExecs {
 public:
  GraphExecs(Channel* channel, KernelEffects& effects, GraphTable& table,
             NodeContents& node_contents, UserObjects& user_objects,
             GraphAllocations& allocations, GraphLauncher& launcher, GraphNotes& notes)
      : channel_(channel),
        effects_(effects),
        table_(table),
        node_contents_(node_contents),
        user_objects_(user_objects),
        allocations_(allocations),
        launcher_(launcher),
        notes_(notes) {}

  // nullptr where the handle is none.
  GraphExec* Find(void* handle) const { return execs_.Find(handle); }

  // --- As Graphs'; nullptr stands for a handle that is none
  // ---------------------------
  Error Instantiate(const Graph* graph, Instantiation* how, void** exec);
  Error Destroy(void* handle);
  Error Update(void* handle, const Graph* graph, GraphUpdate* update);
  // Of the copy of the node that the executable graph was made with.
  Error SetParameters(void* handle, const GraphNode* original,
                      const GraphNodeParameters& parameters);
  Error SetEnabled(void* handle, const GraphNode* original, bool enabled);
  Error GetEnabled(void* handle, const GraphNode* original, bool* enabled);

  // A device's context ends, and its lanes with it.
  void ForgetDevice(int device);

 private:
  // After a change of what its nodes do.
  void Prepare(GraphExec* exec);
  void PrepareNode(GraphExec* exec, GraphNode* node);

  Channel* const channel_;
  KernelEffects& effects_;
  GraphTable& table_;
  NodeContents& node_contents_;
  UserObjects& user_objects_;
  GraphAllocations& allocations_;
  GraphLauncher& launcher_;
  GraphNotes& notes_;
  HandleTable<GraphExec, 0x62> execs_;
  uint32_t execs_made_ = 0;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_EXECS_H_
