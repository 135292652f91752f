// Kernels by name: those of libraries, whose machine code is not read, and the numbers
// under which records name kernels.
//
// Thread rule: Find may be called from any thread; the GPU's lock guards the rest.

#ifndef VRANK_VIRTUAL_GPU_CORE_KERNEL_NAMES_H_
#define VRANK_VIRTUAL_GPU_CORE_KERNEL_NAMES_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "base/guest/channel.h"
#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {

class KernelNames {
 public:
  explicit KernelNames(Channel* channel) : channel_(channel) {}

  // The kernel of this (mangled) name that no image registered. The same object for the
  // same name.
  KernelCode* Find(const char* mangled_name);
  // Channel::Name of the kernel; the first call also chooses its effect by the name.
  uint32_t NumberOf(KernelCode* code);

 private:
  Channel* const channel_;
  std::mutex mutex_;
  std::unordered_map<std::string_view, std::unique_ptr<KernelCode>> kernels_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_KERNEL_NAMES_H_
