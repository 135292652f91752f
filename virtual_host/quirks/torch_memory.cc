// Interposed: PyTorch's report of what its caching allocator holds. It is made for
// profilers at every allocation and release, whether one listens or not
// (c10/core/Allocator.h; c10/cuda/CUDACachingAllocator.cpp, PyTorch 1.8 to 2.15), with
// the allocator's lock held.

#include <cstddef>
#include <cstdint>

#include "base/guest/export.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_host/process/process.h"
#include "virtual_host/quirks/torch_library.h"

// Named and laid out as PyTorch has it.
namespace c10 {

struct Device {
  static constexpr int8_t kCuda = 1;  // DeviceType::CUDA
  int8_t type;
  int8_t index;
};

VRANK_EXPORT void reportMemoryUsageToProfiler(void* ptr, int64_t alloc_size,
                                              size_t total_allocated,
                                              size_t total_reserved, Device device);

void reportMemoryUsageToProfiler(void* ptr, int64_t alloc_size, size_t total_allocated,
                                 size_t total_reserved, Device device) {
  static const auto report =
      vrank::host::Theirs<void (*)(void*, int64_t, size_t, size_t, Device)>(
          "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", "libc10.so");
  if (device.type == Device::kCuda && device.index >= 0)
    if (vrank::host::GuestChannel* const channel = vrank::host::ProcessChannel()) {
      channel->NoteAllocator(static_cast<uint32_t>(device.index), total_allocated,
                             total_reserved);
      if (const vrank::VirtualGpuTable* const table = vrank::FindVirtualGpuTable();
          table != nullptr && table->gpu->abi() == vrank::VirtualGpu::kAbi)
        table->gpu->SetBlock(ptr, alloc_size);
    }
  if (report != nullptr)
    report(ptr, alloc_size, total_allocated, total_reserved, device);
}

}  // namespace c10
