// The process's one Library, made at the first call that needs it.

#include "virtual_nccl/api/entry.h"

#include <cstdlib>
#include <string>

#include "base/guest/channel.h"
#include "base/guest/thread_value.h"
#include "base/guest/virtual_gpu.h"
#include "gpu_hold/held_gpu.h"
#include "virtual_nccl/core/error.h"

namespace vrank::nccl {

namespace {

// Why there is no library, where that is known. Never destroyed, as the library.
std::string& Reason() {
  static std::string* const reason = new std::string(
      "this libnccl.so.2 works under `vrank emulate` only, with the guest libraries of "
      "the same build");
  return *reason;
}

}  // namespace

ncclResult_t FindLibrary(const char* function, Library** library) {
  // Never destroyed: programs leave communicators and threads behind when they exit.
  static Library* const found = []() -> Library* {
    Channel* channel = FindChannel();
    // vrank says that the process keeps its real GPUs, and when the job began.
    const char* const origin_ns = getenv("VRANK_REAL_GPU");
    if (channel != nullptr && origin_ns != nullptr) {
      std::string error;
      VirtualGpu* const gpu =
          hold::MakeHeldGpu(channel, strtoll(origin_ns, nullptr, 10), &error);
      if (gpu != nullptr)
        return new Library(channel, gpu);
      Reason() = "streams of a real GPU cannot be held: " + error;
      return nullptr;
    }
    const VirtualGpuTable* table = FindVirtualGpuTable();
    if (channel == nullptr || table == nullptr || table->gpu == nullptr ||
        table->gpu->abi() != VirtualGpu::kAbi)
      return nullptr;
    return new Library(channel, table->gpu);
  }();
  if (found == nullptr)
    return Fail(ncclSystemError, "%s : %s", function, Reason().c_str());
  if (found->channel().detached())
    return Fail(ncclUnhandledCudaError,
                "%s : CUDA is not usable in a process after fork", function);
  *library = found;
  return ncclSuccess;
}

Group& ThreadGroup() {
  return ThreadValue<Group>::Mine();
}

}  // namespace vrank::nccl
