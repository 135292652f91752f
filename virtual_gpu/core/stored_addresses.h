// The addresses among a launch's parameters that the kernel stores through, as its
// machine code tells (code/stored_parameters.h).
//
// Thread rule: the GPU's lock guards the kernel and the contents.

#ifndef VRANK_VIRTUAL_GPU_CORE_STORED_ADDRESSES_H_
#define VRANK_VIRTUAL_GPU_CORE_STORED_ADDRESSES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/gpu_types.h"

namespace vrank::gpu {

// nullopt: not told. Reads the code when the kernel is first launched with addresses at
// these places, some milliseconds for a long kernel.
std::optional<std::vector<uint64_t>> FindStoredAddresses(const KernelLaunch& launch,
                                                         const Contents& contents);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_STORED_ADDRESSES_H_
