// What a kernel's machine code says of the launches that it can take.

#ifndef VRANK_BASE_GUEST_KERNEL_RESOURCES_H_
#define VRANK_BASE_GUEST_KERNEL_RESOURCES_H_

#include <cstdint>

namespace vrank {

// Zero where the code states no bound.
struct KernelResources {
  bool known = false;          // machine code for this GPU was read
  bool runnable = true;        // false: the image holds no code for this GPU
  uint32_t registers = 0;      // per thread
  uint32_t shared_bytes = 0;   // per block, static
  uint32_t local_bytes = 0;    // per thread
  uint32_t barriers = 0;       // per block
  uint32_t most_threads = 0;   // per block: __launch_bounds__
  uint32_t most_cluster = 0;   // blocks per cluster: its third argument
  uint32_t block[3] = {};      // required: __block_size__
  uint32_t cluster[3] = {};    // required: __cluster_dims__
  bool needs_cluster = false;  // every launch states the size of its clusters
  // A launch counts its grid in clusters (__block_size__ with two arguments).
  bool blocks_are_clusters = false;
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_KERNEL_RESOURCES_H_
