// The kernels that cuDNN launches for batch normalisation, with NVIDIA's names and
// shapes: as a profile of ResNet-50 on an A100 has them (docs/validation.md) where
// images are contiguous; where channels come last, the name is from published profiles
// and the shape is assumed.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_BATCH_NORM_KERNELS_H_
#define VRANK_VIRTUAL_GPU_API_DNN_BATCH_NORM_KERNELS_H_

#include <cstdint>
#include <span>

#include "virtual_gpu/api/dnn/cudnn_abi.h"
#include "virtual_gpu/core/gpu.h"

namespace vrank::gpu::dnn {

enum class BatchNormPass : uint8_t { kTraining, kInference, kBackward };

struct BatchNormShape {
  DataType type{};
  bool channels_last = false;
  uint32_t channels = 0;
  uint64_t per_channel = 0;  // elements of a channel in all images
};

// What every kernel gets (structure_kernel.h). The cost file reads it.
struct BatchNormArguments {
  static constexpr size_t kMostOutputs = 6;

  uint64_t elements;
  uint32_t channels, element_bytes;
  const void* outputs[kMostOutputs];
};
static_assert(sizeof(BatchNormArguments) == 64);

Error LaunchBatchNorm(Gpu* gpu, void* stream, BatchNormPass pass,
                      const BatchNormShape& shape, std::span<void* const> outputs);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_BATCH_NORM_KERNELS_H_
