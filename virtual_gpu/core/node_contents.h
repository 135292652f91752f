// What nodes do: from the caller's parameters to a node's own copies, and back.
//
// Not thread-safe: the GPU's lock guards what it looks up.

#ifndef VRANK_VIRTUAL_GPU_CORE_NODE_CONTENTS_H_
#define VRANK_VIRTUAL_GPU_CORE_NODE_CONTENTS_H_

#include "base/guest/channel.h"
#include "virtual_gpu/core/copy_engine.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/events.h"
#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/graph_allocations.h"
#include "virtual_gpu/core/graph_table.h"
#include "virtual_gpu/core/graph_types.h"

namespace vrank::gpu {

class NodeContents {
 public:
  NodeContents(Channel* channel, CopyEngine& copies, Events& events, GraphTable& table,
               GraphAllocations& allocations)
      : channel_(channel),
        copies_(copies),
        events_(events),
        table_(table),
        allocations_(allocations) {}

  // Checks the parameters as the call that they stand for would.
  Error From(const GraphNodeParameters& parameters, GraphNodeContent* content);
  // Pointers in it are the node's.
  GraphNodeParameters ParametersOf(GraphNode* node);

 private:
  Channel* const channel_;
  CopyEngine& copies_;
  Events& events_;
  GraphTable& table_;
  GraphAllocations& allocations_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_NODE_CONTENTS_H_
