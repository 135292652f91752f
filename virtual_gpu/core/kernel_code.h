// A kernel as the program registered it: its name and how it takes its parameters.
//
// The libraries of the virtual GPU pass it around by address; it is also the handle
// that programs see as cudaKernel_t and CUfunction. Made by Gpu::FindKernel, never
// freed.
//
// Thread rule: name and signature never change once the kernel was handed out; the
// attributes are atomic.

#ifndef VRANK_VIRTUAL_GPU_CORE_KERNEL_CODE_H_
#define VRANK_VIRTUAL_GPU_CORE_KERNEL_CODE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "base/guest/kernel_signature.h"
#include "base/guest/thread_work.h"
#include "virtual_gpu/core/concat_kernel.h"
#include "virtual_gpu/core/element_kernel.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/list_copy_kernel.h"
#include "virtual_gpu/core/reduce_kernel.h"

namespace vrank::gpu {

struct KernelCode {
  std::string name;  // mangled
  // What the name tells; completed from the kernel's device image.
  KernelSignature signature;
  std::atomic<bool> described{false};  // the image was asked
  ThreadWork thread_work;              // as the image tells it

  // What programs set and read back (cudaFuncSetAttribute). -1: never set.
  std::atomic<int> max_dynamic_shared{-1};
  std::atomic<int> shared_carveout{-1};
  std::atomic<int> non_portable_cluster{0};

  // Under the GPU's lock, from the first launch on:
  uint32_t record_name = 0;  // Channel::Name
  ElementKernel elements;
  ConcatKernel concat;
  uint32_t list_copy_bytes = 0;  // ParseListCopyKernel
  ReduceKernel reduction;
  bool updates_loss_scale = false;  // loss_scale.h
};

// Where the launch holds a parameter; nullptr where it holds none.
inline const unsigned char* ArgumentAt(const KernelLaunch& launch, uint32_t index) {
  const KernelSignature& signature = launch.kernel->signature;
  const KernelParameter& parameter = signature.parameters[index];
  if (launch.arguments != nullptr)
    return static_cast<const unsigned char*>(launch.arguments[index]);
  const bool inside = launch.packed != nullptr && index < signature.known &&
                      parameter.offset + parameter.size <= launch.packed_bytes;
  return inside ? static_cast<const unsigned char*>(launch.packed) + parameter.offset
                : nullptr;
}

// Registers per thread that occupancy answers assume: that the kernel's machine code
// tells them, too, is not used. 32 is what 2,048 threads leave each other of 65,536.
inline constexpr int kAssumedRegisters = 32;

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_KERNEL_CODE_H_
