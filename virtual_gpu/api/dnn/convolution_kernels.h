// The kernels that cuDNN launches for a convolution, with NVIDIA's names and shapes:
// implicit matrix products over tiles, on tensor cores in NHWC, with kernels that
// change the layout before and behind where images lie otherwise.
//
// Names, the choice of tiles, the parts of a long sum and what is converted: as a
// profile of ResNet-50 in TF32 on an A100 has them (docs/validation.md). What other
// types and GPUs choose is assumed to follow the same rules; names of Hopper's are from
// published profiles.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_CONVOLUTION_KERNELS_H_
#define VRANK_VIRTUAL_GPU_API_DNN_CONVOLUTION_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "virtual_gpu/api/dnn/convolution.h"
#include "virtual_gpu/api/dnn/structure_kernel.h"

namespace vrank::gpu::dnn {

// What every kernel gets (structure_kernel.h). The cost file reads it.
struct ConvolutionArguments {
  uint64_t pixels;             // of the result of a forward pass, in all images
  uint32_t filters, products;  // that go into one of its elements
  // Of the implicit matrix product: results of a tile, sums over how many; tiles, and
  // the parts into which sums are cut. 0 where the kernel is none.
  uint32_t tile, depth, tiles, parts;
  uint64_t read_bytes, written_bytes;  // of device memory
  const void* output;
};
static_assert(offsetof(ConvolutionArguments, tile) == 16 &&
              offsetof(ConvolutionArguments, read_bytes) == 32 &&
              sizeof(ConvolutionArguments) == 56);

struct ConvolutionKernels {
  struct Step {
    KernelShape shape;
    ConvolutionArguments numbers{};
    bool into_workspace = false;  // else into the tensor that the graph writes
  };
  std::vector<Step> steps;
  uint64_t workspace_bytes = 0;
  bool winograd = false;
};

// Half precision, and float32 as TF32, in groups that fill vectors of 16 bytes.
bool CanUseTensorCores(const ConvolutionShape& shape,
                       const protocol::GpuProperties& gpu);

ConvolutionKernels ChooseKernels(const ConvolutionShape& shape, bool tensor_cores,
                                 const protocol::GpuProperties& gpu);

Error LaunchConvolution(Gpu* gpu, void* stream, const ConvolutionKernels& kernels,
                        std::span<void* const> outputs, void* workspace);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_CONVOLUTION_KERNELS_H_
