// How kernels of PyTorch get a tensor by value, with indices of 32 bits
// (aten/src/ATen/cuda/detail/TensorInfo.cuh in PyTorch 2.11 to 2.15).
//
// Thread rule: plain data.

#ifndef VRANK_VIRTUAL_GPU_CORE_TENSOR_INFO_H_
#define VRANK_VIRTUAL_GPU_CORE_TENSOR_INFO_H_

#include <cstdint>
#include <cstring>

#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {

struct TensorInfo {
  static constexpr int32_t kMostDimensions = 25;
  uint64_t data;
  uint32_t sizes[kMostDimensions], strides[kMostDimensions];
  int32_t dimensions;

  // Whether slice i begins at i * length elements, and its elements, `within` apart,
  // follow each other. The dimension of the slice has size 1.
  bool IsOnePiece(uint32_t within, uint32_t slices, uint32_t length) const {
    if (dimensions < 1 || dimensions > kMostDimensions || (within != 1 && length > 1))
      return false;
    uint64_t step = length;
    for (int32_t i = dimensions - 1; i >= 0; --i) {
      if (sizes[i] == 1)
        continue;
      if (strides[i] != step)
        return false;
      step *= sizes[i];
    }
    return step == uint64_t{slices} * length;
  }
};

// The parameter of that number. False where the launch has none, or a smaller one.
template <typename T>
bool ReadParameter(const KernelLaunch& launch, uint32_t number, T* value) {
  const KernelSignature& signature = launch.kernel->signature;
  const unsigned char* const at =
      number < signature.known ? ArgumentAt(launch, number) : nullptr;
  if (at == nullptr || signature.parameters[number].size < sizeof *value)
    return false;
  std::memcpy(value, at, sizeof *value);
  return true;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_TENSOR_INFO_H_
