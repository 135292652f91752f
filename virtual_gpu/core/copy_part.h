// A run of bytes that a kernel copies, as kernels' parameters tell it.
//
// Thread rule: a value.

#ifndef VRANK_VIRTUAL_GPU_CORE_COPY_PART_H_
#define VRANK_VIRTUAL_GPU_CORE_COPY_PART_H_

#include <cstdint>

namespace vrank::gpu {

struct CopyPart {
  uint64_t to = 0, from = 0, bytes = 0;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_COPY_PART_H_
