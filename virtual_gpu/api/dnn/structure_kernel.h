// Kernels that take one structure of numbers and addresses, whatever NVIDIA's take:
// what one costs depends on the numbers (data/kernels/pytorch.textproto), and what it
// writes follows from the addresses.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_STRUCTURE_KERNEL_H_
#define VRANK_VIRTUAL_GPU_API_DNN_STRUCTURE_KERNEL_H_

#include <cstdint>
#include <string>

#include "virtual_gpu/core/gpu.h"

namespace vrank::gpu::dnn {

struct KernelShape {
  std::string name;  // mangled, where it is mangled
  uint32_t grid[3] = {1, 1, 1};
  uint32_t threads = 1;
  uint32_t shared = 0;
};

// Launches the kernel of this name with `arguments`, a structure of `bytes`. All
// launches of a name have structures of one size.
Error LaunchWithStructure(Gpu* gpu, void* stream, const KernelShape& shape,
                          void* arguments, uint16_t bytes);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_STRUCTURE_KERNEL_H_
