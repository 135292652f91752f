// The process's one Library, made at the first call that needs it.

#include "virtual_nccl/api/entry.h"

#include "base/guest/channel.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_nccl/core/error.h"

namespace vrank::nccl {

ncclResult_t FindLibrary(const char* function, Library** library) {
  // Never destroyed: programs leave communicators and threads behind when they exit.
  static Library* const found = []() -> Library* {
    Channel* channel = FindChannel();
    const VirtualGpuTable* table = FindVirtualGpuTable();
    if (channel == nullptr || table == nullptr || table->gpu == nullptr ||
        table->gpu->abi() != VirtualGpu::kAbi)
      return nullptr;
    return new Library(channel, table->gpu);
  }();
  if (found == nullptr)
    return Fail(
        ncclSystemError,
        "%s : this libnccl.so.2 works under `vrank emulate` only, with the guest "
        "libraries of the same build",
        function);
  if (found->channel().detached())
    return Fail(ncclUnhandledCudaError,
                "%s : CUDA is not usable in a process after fork", function);
  *library = found;
  return ncclSuccess;
}

Group& ThreadGroup() {
  static thread_local Group group;
  return group;
}

}  // namespace vrank::nccl
