// A kernel as the program registered it: its name, how it takes its parameters, and
// what its launches need.
//
// The libraries of the virtual GPU pass it around by address; it is also the handle
// that programs see as cudaKernel_t and CUfunction. MakeKernel's caller owns it; one
// that a program can hold is never freed.
//
// Thread rule: what name and machine code tell never changes once the kernel was handed
// out; the attributes are atomic.

#ifndef VRANK_VIRTUAL_GPU_CORE_KERNEL_CODE_H_
#define VRANK_VIRTUAL_GPU_CORE_KERNEL_CODE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/guest/kernel_resources.h"
#include "base/guest/kernel_signature.h"
#include "base/guest/thread_work.h"
#include "virtual_gpu/code/machine_code.h"
#include "virtual_gpu/code/stored_parameters.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/named_effect.h"

namespace vrank::gpu {

struct SharedCode;  // virtual_gpu/core/deferred_launch.cc

// What is known of a kernel's launches being computed (launch_interpreter.h). It
// makes those that can't be cheap.
struct KernelComputation {
  // Finds the machine code; empty where the kernel has none. Called once.
  std::function<std::unique_ptr<MachineCode>()> read;
  std::unique_ptr<MachineCode> code;
  std::shared_ptr<SharedCode> shared;  // for launches that are deferred; nullptr: none
  bool never = false;
  // What took more instructions than a launch may, of launches over little data and
  // over much (launch_interpreter.h).
  struct Tried {
    // Launches of more threads are not tried, nor those of as many whose shape was too
    // long.
    uint64_t most_threads = ~uint64_t{0};
    std::unordered_set<uint64_t> too_long;
    // In a row; and how many launches are not tried for that.
    uint32_t failures = 0, pause = 0;
    const char* writer = nullptr;  // of launches that are not tried
  };
  Tried tried[2];
  // Launches run for their assertions alone; and what was tried so.
  bool checks_assertions = false;
  Tried asserted;
  // What the kernel stores through, by the places at which launches pass addresses.
  struct Stored {
    std::vector<uint32_t> pointers;  // bytes among the parameters, ascending
    StoredParameters found;
  };
  std::vector<Stored> stored;
  // Parameters have there, if not negative, the address of what was unknown last.
  int32_t unknown_input_at = -1;
  // What the last launch writes with, if it is not computed (Contents::NameWriter);
  // nullptr: the kernel's name, for no reason that is known. Those for unknown inputs,
  // by what these were written with.
  const char* writer = nullptr;
  std::unordered_map<const char*, const char*> writers_by_input;
};

struct KernelCode {
  std::string name;  // mangled
  // What the name tells; completed from the kernel's device image.
  KernelSignature signature;
  // As the image tells it.
  ThreadWork thread_work;
  KernelResources resources;

  // What programs set and read back (function_attributes.h). -1: never set.
  std::atomic<int> max_dynamic_shared{-1};
  std::atomic<int> shared_carveout{-1};
  std::atomic<int> needs_cluster{0};
  std::atomic<int> cluster[3] = {};  // where the code requires none
  std::atomic<int> non_portable_cluster{0};
  std::atomic<int> cluster_scheduling{0};

  // Under the GPU's lock, from the first launch on:
  uint32_t record_name = 0;                   // Channel::Name
  std::unique_ptr<const NamedEffect> effect;  // nullptr: the name states none
  KernelComputation computation;

  const char* writer() const {
    return computation.writer != nullptr ? computation.writer : name.c_str();
  }
};

// What the name tells is filled in.
inline KernelCode* MakeKernel(std::string_view mangled_name) {
  auto* const kernel = new KernelCode;
  kernel->name = mangled_name;
  ParseKernelSignature(kernel->name, &kernel->signature);
  return kernel;
}

// The dimensions of its clusters; zeros where it requires none.
inline void RequiredCluster(const KernelCode& kernel, uint32_t (&cluster)[3]) {
  const KernelResources& resources = kernel.resources;
  for (int i = 0; i < 3; ++i)
    cluster[i] = resources.cluster[0] != 0
                     ? resources.cluster[i]
                     : static_cast<uint32_t>(kernel.cluster[i].load());
}

inline uint64_t Product(const uint32_t (&of)[3]) {
  return uint64_t{of[0]} * of[1] * of[2];
}
inline uint64_t ThreadsOf(const KernelLaunch& launch) {
  return Product(launch.grid) * Product(launch.block);
}

// Where the launch holds a parameter; nullptr where it holds none.
inline const unsigned char* ArgumentAt(const KernelLaunch& launch, uint32_t index) {
  const KernelSignature& signature = launch.kernel->signature;
  if (launch.arguments != nullptr)
    return static_cast<const unsigned char*>(launch.arguments[index]);
  if (launch.packed == nullptr || index >= signature.known)
    return nullptr;
  const KernelParameter& parameter = signature.parameters[index];
  return parameter.offset + parameter.size <= launch.packed_bytes
             ? static_cast<const unsigned char*>(launch.packed) + parameter.offset
             : nullptr;
}

// Registers per thread of a kernel without machine code for the GPU (a driver would
// compile its PTX): what 2,048 threads leave each other of 65,536.
inline constexpr uint32_t kAssumedRegisters = 32;
inline uint32_t RegistersOf(const KernelCode& kernel) {
  const KernelResources& resources = kernel.resources;
  return resources.known && resources.registers > 0 ? resources.registers
                                                    : kAssumedRegisters;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_KERNEL_CODE_H_
