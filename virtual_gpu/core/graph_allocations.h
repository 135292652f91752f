// The allocation nodes of graphs: their addresses, and the device memory behind them
// (graph_memory.h).
//
// Owns the pool of each device. Sizes are in bytes.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_ALLOCATIONS_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_ALLOCATIONS_H_

#include <cstdint>
#include <map>

#include "base/guest/channel.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/devices.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/graph_exec.h"
#include "virtual_gpu/core/graph_memory.h"
#include "virtual_gpu/core/graph_types.h"
#include "virtual_gpu/core/memory_accounting.h"

namespace vrank::gpu {

class GraphAllocations {
 public:
  GraphAllocations(Channel* channel, Devices& devices, Contents& contents,
                   MemoryAccounting& accounting)
      : channel_(channel),
        devices_(devices),
        contents_(contents),
        accounting_(accounting) {}

  // A node is made: its address.
  Error TakeAddress(AllocationParameters* parameters);
  // So many graphs more hold the allocation nodes.
  void Count(const Graph& graph, int change);
  // Whether the address is an allocation node's.
  Error CheckFreed(const void* address);

  // A launch: takes from the device what it needs at most beyond what the pool holds,
  // and runs an allocation node.
  Error TakeMemory(const GraphExec& exec);
  void Begin(const AllocationParameters& taken);
  // What an allocation node's address holds is free. False where the address is none.
  bool Free(uint64_t address);

  // --- Calls of the program
  // --------------------------------------------------------
  void Trim(int device);
  Error GetAttribute(int device, GraphMemoryAttribute attribute, uint64_t* value);
  Error ResetAttribute(int device, GraphMemoryAttribute attribute);

 private:
  GraphMemory::Block* FindBlock(uint64_t address, int* device);
  // Gives the address back if nothing can use it any more.
  void DropBlock(uint64_t address);

  Channel* const channel_;
  Devices& devices_;
  Contents& contents_;
  MemoryAccounting& accounting_;
  std::map<int, GraphMemory> memory_;  // by device
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_ALLOCATIONS_H_
