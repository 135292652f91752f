// The device memory of graphs' allocation nodes.
//
// CUDA keeps one pool of it per device, apart from others (cudaDeviceGraphMemTrim). An
// allocation node has its address from the moment it is made; memory lies behind it
// from a launch until it is freed. What a launch needs at most is taken from the device
// when it is launched, and stays with the pool until it is trimmed. Memory that graphs
// use at different times is counted once; addresses are never shared.
//
// Thread rule: plain values; the GPU's lock guards them.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_MEMORY_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_MEMORY_H_

#include <cstdint>
#include <map>

namespace vrank::gpu {

struct GraphMemory {
  struct Block {
    uint64_t bytes = 0;      // in whole blocks of the device
    int references = 0;      // graphs and executable graphs that allocate it
    bool allocated = false;  // a launch has allocated it, nothing has freed it
  };
  std::map<uint64_t, Block> blocks;  // by address
  uint64_t used = 0;                 // by what is allocated now
  uint64_t reserved = 0;             // taken from the device
  // Of `reserved`, as two attributes that are reset apart.
  uint64_t used_high = 0, reserved_high = 0;

  void Use(Block* block) {
    if (block->allocated)
      return;
    block->allocated = true;
    used += block->bytes;
  }
  void Drop(Block* block) {
    if (!block->allocated)
      return;
    block->allocated = false;
    used -= block->bytes;
  }
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_MEMORY_H_
