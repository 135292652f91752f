// What a kernel computes from its parameters and inputs, for the files that know
// kernels by name.
//
// Thread rule: the GPU's lock guards the contents; ArgumentsOf and PointerAt are pure.

#ifndef VRANK_VIRTUAL_GPU_CORE_KERNEL_VALUES_H_
#define VRANK_VIRTUAL_GPU_CORE_KERNEL_VALUES_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>

#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/copy_part.h"
#include "virtual_gpu/core/kernel_code.h"
#include "virtual_gpu/core/pending_value.h"

namespace vrank::gpu {

// Elements that are computed: what programs decide by is small (counts, the labels of a
// micro-batch), and the rest of a job is not to be carried out here.
inline constexpr uint64_t kMostElements = 16'384;

inline uint64_t PointerAt(const unsigned char* operands, uint32_t index) {
  uint64_t address;
  std::memcpy(&address, operands + index * sizeof address, sizeof address);
  return address;
}

// All parameters of a launch that has as many; nullopt where some are not there.
template <size_t kCount>
std::optional<std::array<const unsigned char*, kCount>> ArgumentsOf(
    const KernelLaunch& launch) {
  const KernelSignature& signature = launch.kernel->signature;
  if (!signature.complete || signature.count != kCount)
    return std::nullopt;
  std::array<const unsigned char*, kCount> at;
  for (uint32_t i = 0; i < kCount; ++i)
    at[i] = ArgumentAt(launch, i);
  return std::find(at.begin(), at.end(), nullptr) == at.end() ? std::optional(at)
                                                              : std::nullopt;
}

// Does nothing where either range is not valid.
void CopyOnDevice(const CopyPart& part, Contents& contents);

struct KernelInput {
  uint64_t address, bytes;
};

enum class InputPart {
  kAll,
  kAwaited,  // results whose arrival is not kept stay unknown (deferred_launch.h)
};
// Adds an input to a value: what exists of it, and what is to land there; other bytes
// stay unknown. Returns the writer of the first made-up byte, empty where there is
// none. REQUIRES: nobody else has the value yet; the input is valid.
const char* AddInput(Contents& contents, const KernelInput& input, PendingValue* value,
                     InputPart part = InputPart::kAll);

// Writes the result of a kernel whose inputs are all known. False where it does
// something else.
using KernelFunction =
    std::function<bool(const PendingValue::Inputs& inputs, unsigned char* out)>;

// What a kernel makes of its inputs: bytes that are stored, or a value that waits for
// results. Computed by `writer` where an input or the output has no bytes.
Origin ValueOf(Contents& contents, std::span<const KernelInput> inputs, uint64_t out,
               uint64_t out_bytes, KernelFunction compute, const char* writer);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_KERNEL_VALUES_H_
