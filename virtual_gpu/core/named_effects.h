// What kernels that are recognised by their name write to memory.
//
// Each function returns false where the kernel is another one or its parameters are not
// known; nothing was written then.
//
// Thread rule: the GPU's lock guards the contents.

#ifndef VRANK_VIRTUAL_GPU_CORE_NAMED_EFFECTS_H_
#define VRANK_VIRTUAL_GPU_CORE_NAMED_EFFECTS_H_

#include <cstdint>
#include <optional>

#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/gpu_types.h"

namespace vrank::gpu {

// Fills with one number, exactly, at no memory.
bool FillElements(const KernelLaunch& launch, Contents& contents);
// Element-wise kernels: the output alone is written, and computed if the inputs are
// known.
bool WriteElements(const KernelLaunch& launch, Contents& contents);
// torch.cat's, and copies of tensor lists: the output has what the inputs have.
bool CopyConcat(const KernelLaunch& launch, Contents& contents);
bool CopyList(const KernelLaunch& launch, Contents& contents);
// Bytes that a concatenation reads and writes: among its parameters are pointers that
// nothing has set, so that what they reach tells nothing.
std::optional<uint64_t> ConcatBytes(const KernelLaunch& launch);
// A concatenation whose parts are not known: its output is not, either.
bool WriteConcat(const KernelLaunch& launch, Contents& contents);
// Reductions: output and scratch, computed if the inputs are known.
bool WriteReduction(const KernelLaunch& launch, Contents& contents);
// The update of torch.amp's loss scale.
bool WriteLossScale(const KernelLaunch& launch, Contents& contents);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_NAMED_EFFECTS_H_
