// Kernels of torch.cat: which bytes they copy where.
//
// A virtual GPU runs no kernel, but what these write is known: programs concatenate the
// sizes of messages before they send them (send_object_list), and a whole model's
// state. Of aten/src/ATen/native/cuda/Shape.cu in PyTorch 2.11: CatArrayBatchedCopy and
// its twins _contig, _alignedK_contig and _vectorized take the output, the inputs
// (CatArrInputTensorMetadata<T, IndexType, n, stride_size>: n pointers, then n offsets,
// sizes along the dimension and element counts of IndexType, then n flags), sizes and
// strides of the output (four IndexType each), the dimension, and the output's stride
// there. The second index of a block is the input's.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CORE_CONCAT_KERNEL_H_
#define VRANK_VIRTUAL_GPU_CORE_CONCAT_KERNEL_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "virtual_gpu/core/copy_part.h"

namespace vrank::gpu {

struct ConcatKernel {
  uint32_t element_bytes = 0;  // 0: no kernel of this kind
  uint32_t unit_bytes = 0;  // in which the output's shape counts: vectors, or elements
  uint32_t index_bytes = 0;
  uint32_t dimensions = 0;
  uint32_t most_inputs = 0;
  bool may_have_strides = false;  // inputs that are not contiguous say so
};

ConcatKernel ParseConcatKernel(std::string_view mangled);

// The parameters of a launch, as the kernel takes them.
struct ConcatLaunch {
  uint64_t output = 0;
  const unsigned char* inputs = nullptr;  // CatArrInputTensorMetadata
  uint64_t inputs_bytes = 0;
  const unsigned char* shape = nullptr;  // sizes and strides of the output
  uint64_t shape_bytes = 0;
  int32_t dimension = 0;
  uint64_t stride = 0;  // of the output, in elements
  uint32_t input_count = 0;
};

// Whether the parameters are those of such a kernel: large enough for what they hold.
bool IsConcat(const ConcatKernel& kernel, const ConcatLaunch& launch);

// Bytes from the output's first to its last. REQUIRES: IsConcat.
uint64_t ConcatExtent(const ConcatKernel& kernel, const ConcatLaunch& launch);

// Bytes of all inputs together. REQUIRES: IsConcat.
uint64_t ConcatInputBytes(const ConcatKernel& kernel, const ConcatLaunch& launch);

// One part per input. Nothing where the parts are not contiguous in the output (another
// dimension than the first) or where an input is not. REQUIRES: IsConcat.
std::optional<std::vector<CopyPart>> ConcatParts(const ConcatKernel& kernel,
                                                 const ConcatLaunch& launch);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_CONCAT_KERNEL_H_
