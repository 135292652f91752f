// How the libraries beside libcuda reach the virtual GPU.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_GPU_ACCESS_H_
#define VRANK_VIRTUAL_GPU_API_GPU_ACCESS_H_

#include "base/guest/program_call.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/core/gpu.h"

namespace vrank::gpu {

// The process's virtual GPU; nullptr where libcuda.so.1 is missing or not ours.
inline Gpu* FindGpu() {
  const VirtualGpuTable* const table = FindVirtualGpuTable();  // outside of the guard
  static Gpu* const gpu =
      table == nullptr || table->runtime->abi() != Gpu::kAbi ? nullptr : table->runtime;
  return gpu;
}

// For a call that only reads or sets something inside its library.
inline void SpendAttribute() {
  if (Gpu* gpu = FindGpu()) {
    if (Channel* channel = gpu->channel()) {
      ProgramCall program(channel, "a library's attribute");
      channel->LetHelpersRun();
      channel->Spend(HostCost::kAttribute);
    }
  }
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_GPU_ACCESS_H_
