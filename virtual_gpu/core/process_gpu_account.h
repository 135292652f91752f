// ProcessGpu::Account, for the files that implement ProcessGpu.
//
// Thread rule: as ProcessGpu's private methods, under its lock.

#ifndef VRANK_VIRTUAL_GPU_CORE_PROCESS_GPU_ACCOUNT_H_
#define VRANK_VIRTUAL_GPU_CORE_PROCESS_GPU_ACCOUNT_H_

#include <type_traits>

#include "virtual_gpu/core/process_gpu.h"

namespace vrank::gpu {

template <typename Step>
auto ProcessGpu::Account(int device, protocol::MemoryOwner owner, Step step) {
  DeviceMemory& memory = contents_.memory(device);
  const uint64_t before = memory.used();
  auto emit = [&] {
    account_delta_ = static_cast<int64_t>(memory.used() - before);
    if (account_delta_ != 0)
      EmitMemory(device, account_delta_, owner);
  };
  if constexpr (std::is_void_v<decltype(step())>) {
    step();
    emit();
  } else {
    auto result = step();
    emit();
    if (!result)
      channel_->Count(LossId::kNoMemoryLeft, 1);
    return result;
  }
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_PROCESS_GPU_ACCOUNT_H_
