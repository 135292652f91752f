// Interposed: PyTorch's report of what its caching allocator holds. It is made for
// profilers at every allocation and release, whether one listens or not
// (c10/core/Allocator.h; c10/cuda/CUDACachingAllocator.cpp, PyTorch 1.8 to 2.15), with
// the allocator's lock held.

#include <sys/prctl.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/guest/export.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_host/process/process.h"
#include "virtual_host/quirks/torch_library.h"
#include "virtual_host/quirks/torch_optimizer.h"

namespace {

using vrank::protocol::BlockChange;

// Threads of the autograd engine take their name before they take memory
// (torch/csrc/autograd/engine.cpp, Engine::thread_init; PyTorch 2.3 and later).
bool IsAutogradThread() {
  static thread_local const bool is = [] {
    char name[16] = "";  // TASK_COMM_LEN
    return prctl(PR_GET_NAME, name) == 0 &&
           std::string_view(name).starts_with("pt_autograd");
  }();
  return is;
}

// What is given back has a negative size.
BlockChange ChangeOf(int64_t size) {
  if (size < 0)
    return BlockChange::kGivenBack;
  return IsAutogradThread() ? BlockChange::kTakenInBackward : BlockChange::kTaken;
}
uint64_t SizeOf(int64_t size) {
  return static_cast<uint64_t>(size < 0 ? -size : size);
}

}  // namespace

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
  if (device.type == Device::kCuda && vrank::host::RangesChannel() != nullptr) {
    [[maybe_unused]] static const bool marked =
        (vrank::host::MarkOptimizerSteps(), true);
  }
  if (device.type == Device::kCuda && device.index >= 0)
    if (vrank::host::GuestChannel* const channel = vrank::host::ProcessChannel()) {
      const auto gpu = static_cast<uint32_t>(device.index);
      channel->NoteAllocator(gpu, total_allocated, total_reserved);
      channel->NoteAllocatorBlock({.address = reinterpret_cast<uint64_t>(ptr),
                                   .bytes = SizeOf(alloc_size),
                                   .change = ChangeOf(alloc_size),
                                   .device = gpu});
      if (const vrank::VirtualGpuTable* const table = vrank::FindVirtualGpuTable();
          table != nullptr && table->gpu->abi() == vrank::VirtualGpu::kAbi)
        table->gpu->SetBlock(ptr, alloc_size);
    }
  if (report != nullptr)
    report(ptr, alloc_size, total_allocated, total_reserved, device);
}

}  // namespace c10
